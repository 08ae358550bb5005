// Package verbs tests that what an operator's command has begun is completed by the same command: its process is killed at each of its
// steps, and the command is repeated. The steps of a command that works on files are its changes of a filesystem, which faultfs counts; those of
// a command that asks a cluster are its calls, before a controller hears of one and before the command hears of the answer, which a Gate counts.
// It also asks for backups while a cluster is in trouble.
package verbs
