package conformance

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// readLab answers, by row, the test of jepsen/lab/scenarios that has it as a sub-test: those of more than one kernel.
func readLab(path string) (map[string]string, error) {
	records, err := readCSV(path)
	if err != nil {
		return nil, err
	}
	lab := map[string]string{}
	for _, r := range records {
		if _, twice := lab[r[0]]; twice || len(r) != 2 || r[1] == "" {
			return nil, fmt.Errorf("read %s: row %s is there twice or names no test", path, r[0])
		}
		lab[r[0]] = r[1]
	}
	return lab, nil
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

// tableErrors is what is wrong with the tables: what they have of rows that do not exist, and rows of which more than one
// of them says how they end.
func tableErrors(rows []row, tests map[string]rowTest, reasons, lab map[string]string) error {
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
	for id := range lab {
		if !known[id] {
			errs = append(errs, fmt.Errorf("%s is of the lab and is no row", id))
		}
		if tests[id] != nil || reasons[id] != "" {
			errs = append(errs, fmt.Errorf("%s is of the lab, and has a test here or is not applicable", id))
		}
	}
	return errors.Join(errs...)
}
