package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/holdfast-storage/holdfast/plantedbug"
)

type options struct {
	within time.Duration
	only   []plantedbug.Bug
	state  string
	fresh  bool
	page   string
}

// session is one run of this command: what was found so far.
type session struct {
	options
	results []result
	built   map[string]error
}

func run(ctx context.Context, o options) error {
	s := &session{options: o, built: map[string]error{}}
	if err := s.load(); err != nil {
		return err
	}
	for i := range table {
		r := &table[i]
		if len(o.only) > 0 && !slices.Contains(o.only, r.bug) {
			continue
		}
		if err := s.row(ctx, r); err != nil {
			return err
		}
	}
	if o.page == "" {
		return nil
	}
	if err := os.WriteFile(o.page, []byte(page(s.results, o.within)), 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// row has the bug's catchers look for it, the named one first, until one has found it.
func (s *session) row(ctx context.Context, r *row) error {
	for _, name := range r.catchers {
		c := catcherOf(name)
		if !c.exists() {
			continue
		}
		found, err := s.result(ctx, c, r.bug)
		if err != nil {
			return err
		}
		fmt.Printf("%-24s %-20s %s\n", r.bug, c.name, found.brief())
		if found.Caught {
			return nil
		}
	}
	return nil
}

func (r *result) brief() string {
	switch {
	case r.Broken != "":
		return "cannot tell: " + r.Broken
	case r.Caught:
		return fmt.Sprintf("caught in %.1f s by %s %s", r.CPU.Seconds(), r.By, r.Steps)
	}
	return fmt.Sprintf("not caught in %.1f s", r.CPU.Seconds())
}

// result is what is known of the bug and the catcher, or is found out now.
func (s *session) result(ctx context.Context, c *catcher, bug plantedbug.Bug) (result, error) {
	if i := slices.IndexFunc(s.results, func(r result) bool { return r.Bug == bug && r.Catcher == c.name }); i >= 0 {
		return s.results[i], nil
	}
	if bug != "" {
		without, err := s.result(ctx, c, "")
		if err != nil {
			return without, err
		}
		if without.Caught {
			return result{Bug: bug, Catcher: c.name, Broken: "it fails without a bug: " + without.By}, nil
		}
	}
	if _, done := s.built[c.program]; !done {
		s.built[c.program] = c.build(ctx, s.state)
	}
	if err := s.built[c.program]; err != nil {
		return result{}, err
	}
	r, err := c.catch(ctx, s.state, bug, s.within)
	if err != nil {
		return r, err
	}
	return r, s.keep(r)
}

func (s *session) path() string { return filepath.Join(s.state, "results.jsonl") }

// load reads what an earlier run found.
func (s *session) load() error {
	if err := os.MkdirAll(s.state, 0o755); err != nil {
		return fmt.Errorf("make the directory of results: %w", err)
	}
	if s.fresh {
		if err := os.Remove(s.path()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("forget earlier results: %w", err)
		}
	}
	f, err := os.Open(s.path())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read earlier results: %w", err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r result
		if json.Unmarshal(lines.Bytes(), &r) == nil { // the last line may be torn
			s.results = append(s.results, r)
		}
	}
	return nil
}

// keep adds a result to the file.
func (s *session) keep(r result) (err error) {
	s.results = append(s.results, r)
	f, err := os.OpenFile(s.path(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return json.NewEncoder(f).Encode(r)
}
