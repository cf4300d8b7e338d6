#ifndef VT_CLI_STREAMS_H
#define VT_CLI_STREAMS_H

/* Standard input, output and error as the commands may rely on them; first of all in main.
 * Descriptors 0 to 2 that are closed are taken, so that no file of a run becomes one of them and gets the messages;
 * they are taken the wrong way round, so that who prints or reads still learns that there is nothing. What is printed
 * passes through vt_text_plain: names, notes and recipes of files reach the terminal as text. */
void vt_streams_open(void);

#endif
