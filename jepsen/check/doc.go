// Package check verifies a cluster's answers: it records the history of calls on one clock and asks
// porcupine whether some order of the calls explains every answer.
package check
