// Package scratch makes the claims and pods with which `holdfast certify --write` writes on hosts, and removes them.
//
// Each has a name of its run (certify.Run) and labels with the run and the cluster. Only what has both is ever removed, by the UID with
// which it was seen, and of an earlier run only what is old enough and used by nobody else.
package scratch
