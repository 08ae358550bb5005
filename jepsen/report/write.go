package report

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
)

// What a page shows at most; the rest is counted.
const (
	shownOperations = 4000
	shownFaults     = 4000
)

// Dir is where a campaign wants reports, empty when it wants none.
func Dir() string { return os.Getenv("HOLDFAST_REPORTS") }

//go:embed page.html.tmpl
var pageSource string

var pageTemplate = template.Must(template.New("page").Parse(pageSource))

// Write puts the page into the directory, which it makes, and adds the run's line to the directory's runs.jsonl. It answers the
// page's path. Judge has been called before.
func (r *Run) Write(dir string) (page string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the directory of reports: %w", err)
	}
	page = filepath.Join(dir, r.Page())
	if err := r.writePage(page); err != nil {
		return "", fmt.Errorf("write the page %s: %w", page, err)
	}
	return page, r.appendLine(filepath.Join(dir, "runs.jsonl"))
}

// Page is the name of the run's page in its directory.
func (r *Run) Page() string {
	name := fmt.Sprintf("%s-%s-%s", r.Layer, r.Name, r.Began.Format("20060102T150405.000000"))
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(`/\: `, c) {
			return '-'
		}
		return c
	}, name) + ".html"
}

func (r *Run) writePage(path string) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return pageTemplate.Execute(f, view(r))
}

// appendLine writes the line in one call, so that runs beside each other do not mix theirs.
func (r *Run) appendLine(path string) (err error) {
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the run: %w", err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open the list of runs: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("add to the list of runs: %w", err)
	}
	return nil
}
