// SPDX-License-Identifier: MIT
// What a reader of the page would complain of, as {findings, ...}: text that is cut off, leaves its box or the window, is
// smaller than 11 px, or stands out from its ground by less than 4.5 to 1 (WCAG 2.1, 1.4.3). Run by tools/browser.py.
(() => {
    const findings = [], LEAST = 4.5, SMALLEST = 11;
    let contrast = Infinity, smallest = Infinity, texts = 0;

    const parse = (text) => {
        const n = (text.match(/[\d.]+/g) || [0, 0, 0, 0]).map(Number);
        return { rgb: n.slice(0, 3), alpha: n.length > 3 ? n[3] : 1 };
    };
    const over = (top, alpha, ground) => ground.map((g, k) => alpha * top[k] + (1 - alpha) * g);
    const luminance = (rgb) => {
        const [r, g, b] = rgb.map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ratio = (a, b) => {
        const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
        return (x + 0.05) / (y + 0.05);
    };
    // backgrounds of all ancestors, laid over the window's own
    const ground = (e) => {
        const dark = matchMedia('(prefers-color-scheme: dark)').matches;
        const scheme = getComputedStyle(document.documentElement).colorScheme;
        let rgb = dark && scheme.includes('dark') ? [18, 18, 18] : [255, 255, 255];
        const chain = [];
        for (let p = e; p; p = p.parentElement) chain.unshift(p);
        for (const p of chain) {
            const c = parse(getComputedStyle(p).backgroundColor);
            rgb = over(c.rgb, c.alpha, rgb);
        }
        return rgb;
    };
    const opacity = (e) => {
        let o = 1;
        for (let p = e; p; p = p.parentElement) o *= Number(getComputedStyle(p).opacity);
        return o;
    };
    const say = (what, e, text) => findings.push(`${what}: <${e.tagName.toLowerCase()}> "${text.trim().slice(0, 60)}"`);

    const look = (node) => {
        const e = node.parentElement, text = node.textContent;
        if (!text.trim() || !e || e.closest('style, title, desc, script')) return;
        const range = document.createRange();
        range.selectNodeContents(node);
        const boxes = [...range.getClientRects()].filter((r) => r.width && r.height);
        const named = e.closest('table')?.querySelector('td[data-of]'); // whose cells say it where the head is not shown
        if (!boxes.length) return named && e.closest('thead') ? undefined : say('not shown', e, text);
        texts++;
        const style = getComputedStyle(e), svg = e.closest('svg');
        const fill = parse(svg ? style.fill : style.color), back = ground(svg ? svg.parentElement : e);
        const c = ratio(over(fill.rgb, fill.alpha * opacity(e), back), back);
        const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
        const size = parseFloat(style.fontSize) * scale;
        contrast = Math.min(contrast, c);
        smallest = Math.min(smallest, size);
        if (!(c >= LEAST)) say(`contrast ${c.toFixed(2)}`, e, text);
        if (!(size >= SMALLEST)) say(`${size.toFixed(1)} px`, e, text);
        const outer = (svg || e.closest('td, th, section, figure, main, body')).getBoundingClientRect();
        if (boxes.length > 3 && boxes.length > text.trim().length / 3) say('broken into letters', e, text);
        for (const r of boxes) {
            if (r.left < -0.5 || r.right > innerWidth + 0.5) say('leaves the window', e, text);
            else if (r.left < outer.left - 1 || r.right > outer.right + 1) say('leaves its box', e, text);
            else if (svg && (r.top < outer.top - 1 || r.bottom > outer.bottom + 1)) say('leaves its picture', e, text);
        }
        node.boxes = boxes;
    };
    const walker = document.createTreeWalker(document.body || document.documentElement, NodeFilter.SHOW_TEXT), nodes = [];
    while (walker.nextNode()) nodes.push(walker.currentNode);
    nodes.forEach(look);

    // two texts of one picture on top of each other
    for (const svg of document.querySelectorAll('svg')) {
        const own = nodes.filter((n) => n.boxes && svg.contains(n));
        own.forEach((a, i) => own.slice(i + 1).forEach((b) => {
            const [p, q] = [a.boxes[0], b.boxes[0]];
            const x = Math.min(p.right, q.right) - Math.max(p.left, q.left);
            const y = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
            if (x > 1 && y > 3) say('lies on another text', a.parentElement, `${a.textContent} / ${b.textContent}`);
        }));
    }
    for (const e of document.querySelectorAll('*')) {
        const box = e.closest('svg') ? null : e;
        if (!box || ['STYLE', 'TITLE', 'HEAD', 'META'].includes(e.tagName) || getComputedStyle(e).display === 'inline') continue;
        if (e.scrollWidth > e.clientWidth + 1) say(`wider than its box, ${e.scrollWidth} > ${e.clientWidth}`, e, e.textContent);
    }
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    return { findings, contrast, smallest, texts, dark, width: innerWidth };
})();
