package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"

	"github.com/holdfast-storage/holdfast/jepsen/report"
)

//go:embed index.html.tmpl
var indexSource string

var indexTemplate = template.Must(template.New("index").Parse(indexSource))

// listed is a run in the list.
type listed struct {
	report.Run
	Acknowledged, Faults int
}

// writeIndex lists the directory's runs, the newest first, with their pages.
func writeIndex(dir string) (path string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the directory of reports: %w", err)
	}
	runs, err := readRuns(filepath.Join(dir, "runs.jsonl"))
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "index.html")
	f, err := os.Create(path)
	if err != nil {
		return "", fmt.Errorf("write the list of runs: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return path, indexTemplate.Execute(f, runs)
}

// readRuns reads the lines that the runs wrote; a line that was torn is passed over.
func readRuns(path string) (runs []*listed, err error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the list of runs: %w", err)
	}
	defer f.Close()
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return runs, nil
		}
		if r := new(listed); json.Unmarshal(line, &r.Run) == nil {
			r.count()
			runs = append([]*listed{r}, runs...)
		}
	}
}

// count sums what the list shows.
func (r *listed) count() {
	r.Acknowledged = r.Counts["acknowledged-operations"]
	for _, n := range r.Injected {
		r.Faults += n
	}
}
