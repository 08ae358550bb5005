package conformance

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// row is one obligation of CSI or CSI-Addons, as rows.csv states it.
type row struct{ ID, Obligation string }

// readRows answers the rows in the order of the sheet.
func readRows(path string) ([]row, error) {
	records, err := readCSV(path)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, r := range records[1:] {
		rows = append(rows, row{ID: r[0], Obligation: r[5]})
	}
	return rows, nil
}

// notListed are rows that the page does not list yet, by their ids or, with a final "-", by the beginning
// of them, and why.
type notListed []struct{ Rows, Reason string }

func readNotListed(path string) (notListed, error) {
	records, err := readCSV(path)
	if err != nil {
		return nil, err
	}
	var all notListed
	for _, r := range records {
		if len(r) != 2 || r[1] == "" {
			return nil, fmt.Errorf("read %s: %s has no reason", path, r[0])
		}
		all = append(all, struct{ Rows, Reason string }{r[0], r[1]})
	}
	return all, nil
}

// has tells whether a row is not listed.
func (n notListed) has(id string) bool {
	return slices.ContainsFunc(n, func(e struct{ Rows, Reason string }) bool {
		return e.Rows == id || strings.HasSuffix(e.Rows, "-") && strings.HasPrefix(id, e.Rows)
	})
}

// split are the rows that are listed, and how many each entry leaves out.
func (n notListed) split(rows []row) (listed []row, left []unlisted) {
	for _, e := range n {
		one := notListed{e}
		of := unlisted{Rows: e.Rows, Reason: e.Reason}
		for _, r := range rows {
			if one.has(r.ID) {
				of.Number++
			}
		}
		left = append(left, of)
	}
	return slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return n.has(r.ID) }), left
}

// readNotApplicable answers the reason by row of every notapplicable*.csv in a directory.
func readNotApplicable(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "notapplicable*.csv"))
	if err != nil {
		return nil, err
	}
	reasons := map[string]string{}
	for _, file := range files {
		records, err := readCSV(file)
		if err != nil {
			return nil, err
		}
		for _, r := range records {
			if _, twice := reasons[r[0]]; twice || len(r) != 2 || r[1] == "" {
				return nil, fmt.Errorf("read %s: row %s is there twice or has no reason", file, r[0])
			}
			reasons[r[0]] = r[1]
		}
	}
	return reasons, nil
}

func readCSV(path string) ([][]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return records, nil
}

// mergeTables makes one table of many, and refuses a row that has two tests.
func mergeTables(tables []map[string]rowTest) (map[string]rowTest, error) {
	all := map[string]rowTest{}
	var errs []error
	for _, table := range tables {
		for id, test := range table {
			if _, twice := all[id]; twice {
				errs = append(errs, fmt.Errorf("row %s has two tests", id))
			}
			all[id] = test
		}
	}
	return all, errors.Join(errs...)
}

// tableErrors is what is wrong with the tables: tests and reasons for rows that
// do not exist, and rows that have both.
func tableErrors(rows []row, tests map[string]rowTest, reasons map[string]string) error {
	known := map[string]bool{}
	for _, r := range rows {
		known[r.ID] = true
	}
	var errs []error
	for id := range tests {
		if !known[id] {
			errs = append(errs, fmt.Errorf("there is a test for %s, which is no row", id))
		}
	}
	for id := range reasons {
		if !known[id] {
			errs = append(errs, fmt.Errorf("%s is not applicable and is no row", id))
		}
		if tests[id] != nil {
			errs = append(errs, fmt.Errorf("%s is not applicable and has a test", id))
		}
	}
	return errors.Join(errs...)
}
