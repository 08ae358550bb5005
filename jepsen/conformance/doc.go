// Package conformance holds a real cluster to every row of rows.csv that begins
// with CSI-: one sub-test for each, named by its id, that talks gRPC and nothing
// else. What is not applicable is in notapplicable*.csv, with its reason. The result
// of a run is a page, which `make conformance` writes.
package conformance
