// Package conformance checks a real cluster against every row of rows.csv that begins with CSI-: one
// sub-test for each, named by its id, that uses gRPC only. Rows that are not applicable are in
// notapplicable*.csv, with the reason. The result of a run is a page, which `make conformance` writes.
package conformance
