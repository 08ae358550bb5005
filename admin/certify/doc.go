// Package certify decides what `holdfast certify` does on a cluster in use, and judges what came of it: pure functions from what the
// operators' API answered to requests, verdicts and a report. It calls nobody.
//
// The command uses scratch volumes alone. Their names begin with Prefix and the random id of the run, and the log has of each that the
// same run asked for it. Nothing is claimed that was not shown: a row of the conformance suite that was not checked is listed as such.
package certify
