package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const home = "jepsen/mutants"

// readReasons reads why a mutant that survives may: each row is its name and the reason.
func readReasons(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the reasons: %w", err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the reasons: %w", err)
	}
	reasons := map[string]string{}
	for _, row := range rows[min(1, len(rows)):] {
		reasons[row[0]] = row[1]
	}
	return reasons, nil
}

func writePage(chosen []mutant, results map[string]result, seed int64) error {
	reasons, err := readReasons(filepath.Join(home, "reasons.csv"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(home, "MUTANTS.md"), []byte(page(chosen, results, reasons, seed)), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// page is MUTANTS.md.
func page(chosen []mutant, results map[string]result, reasons map[string]string, seed int64) string {
	var b strings.Builder
	b.WriteString("# Which changes the tests do not notice\n\n")
	fmt.Fprintf(&b, "Written by `make mutants`: %d one-line changes that seed %d chose among those of the packages that decide, each run against the short tests of its\n", len(chosen), seed)
	b.WriteString("package and, where these passed, against seeds of `jepsen/sim`.\n\n| package | mutants | killed by its tests | by the simulation | survived | of these without effect |\n|---|---|---|---|---|---|\n")
	for _, s := range subjects {
		b.WriteString(row(s.dir, chosen, results, reasons))
	}
	fmt.Fprintf(&b, "\n%d of them were run so far.\n", ran(chosen, results))
	b.WriteString("\n## Survivors\n\n| mutant | reason |\n|---|---|\n")
	for _, name := range survivors(chosen, results) {
		reason := reasons[name]
		switch {
		case reason != "":
		case results[name].Quick:
			reason = "it survived the quick tests of its package; the others and the simulation have not run yet"
		default:
			reason = "**none: a test is missing**"
		}
		fmt.Fprintf(&b, "| %s | %s |\n", strings.ReplaceAll(name, "|", `\|`), reason)
	}
	return b.String()
}

// ran is how many have a result.
func ran(chosen []mutant, results map[string]result) (n int) {
	for i := range chosen {
		if _, known := results[chosen[i].name]; known {
			n++
		}
	}
	return n
}

func row(dir string, chosen []mutant, results map[string]result, reasons map[string]string) string {
	var all, own, sim, survived, without int
	for i := range chosen {
		r, known := results[chosen[i].name]
		if !known || filepath.Dir(chosen[i].file) != dir {
			continue
		}
		all++
		switch r.Killed {
		case "":
			survived++
			if reasons[r.Name] != "" {
				without++
			}
		case "sim":
			sim++
		default:
			own++
		}
	}
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d |\n", dir, all, own, sim, survived, without)
}

// survivors are the names of those that nothing killed, sorted.
func survivors(chosen []mutant, results map[string]result) (names []string) {
	for i := range chosen {
		if r, known := results[chosen[i].name]; known && r.Killed == "" {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}
