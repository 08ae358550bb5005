package conformance

// catalogue is every table of rows; a table has one file.
var catalogue = []map[string]rowTest{}
