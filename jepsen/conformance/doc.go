// Package conformance checks a real cluster against every row of rows.csv: one sub-test for each, named by
// its id, that uses gRPC only. Rows that are not applicable are in notapplicable*.csv, with the reason; those
// of the lab, whose kernels replicate to each other, in lab.csv. The result of a run is a page, which
// `make conformance` writes.
package conformance
