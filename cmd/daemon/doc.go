// Package daemon is what the processes of Holdfast share beside their work: logs,
// the certificates, listeners, the metrics and health listener, and the way they
// stop. Whatever cannot be had is one error that says what was wanted and what to do.
package daemon
