// Package report keeps the record of one run of any layer under jepsen: what was done, what was broken, who led, when nobody served,
// what was counted and what each check found. It judges the run and writes it as one HTML file, which needs no server and no
// network, and as one line of JSON.
//
//   - New begins a record; its methods add to it and may be called from any goroutine. Times are durations since the run began, on
//     the clock that the layer uses: virtual in sim and raftsim.
//   - Need says what the run must have seen; what the catalogue lists for the layer under Counts is needed without being said.
//   - Judge answers whether the run passed: each check without a finding, and nothing that was needed missing. A run that did
//     nothing fails.
//   - Write puts the page and the line of JSON into a directory.
package report
