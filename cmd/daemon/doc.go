// Package daemon is what the processes of Holdfast share: logs, the certificates, listeners, the metrics
// and health listener, and the way they stop. Each failure is one error that says what was needed and
// what to do.
package daemon
