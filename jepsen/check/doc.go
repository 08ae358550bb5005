// Package check judges what a cluster answered: it keeps the history of calls on
// one clock and asks porcupine whether some order of them explains every answer.
package check
