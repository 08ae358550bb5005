package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

type options struct {
	count int
	seed  int64
	state string
	fresh bool
	only  string
	again bool
	page  bool
	quick bool
}

// result is what became of a mutant.
type result struct {
	Name   string        `json:"name"`
	Killed string        `json:"killed"` // by which program; empty: it survived
	By     string        `json:"by"`
	CPU    time.Duration `json:"cpu_ns"`
	Quick  bool          `json:"quick,omitempty"` // it survived the quick tests; the others did not run yet
}

// program is a test program with the mutants of one subject in it.
type program struct {
	name  string // the package, or sim
	path  string
	dir   string
	args  []string
	limit int // seconds of processor time
}

// session is one run of this command.
type session struct {
	options
	results map[string]result
}

func run(ctx context.Context, o options) error {
	s := &session{options: o, results: map[string]result{}}
	if err := s.load(); err != nil {
		return err
	}
	var chosen []mutant
	for i := range subjects {
		mutants, err := subjects[i].choose(o.seed, o.count*subjects[i].share/100)
		if err != nil {
			return err
		}
		chosen = append(chosen, mutants...)
		if o.page {
			continue
		}
		if err := s.subject(ctx, &subjects[i], mutants); err != nil {
			return err
		}
	}
	if o.only != "" {
		return nil
	}
	return writePage(chosen, s.results, o.seed)
}

// subject runs the mutants of one package that are not known yet.
func (s *session) subject(ctx context.Context, sub *subject, mutants []mutant) error {
	if !slices.ContainsFunc(mutants, s.due) {
		return nil
	}
	programs, err := s.build(ctx, sub, mutants)
	if err != nil {
		return err
	}
	for i := range mutants {
		if !s.due(mutants[i]) {
			continue
		}
		r, err := try(ctx, programs, &mutants[i], i+1)
		if err != nil {
			return err
		}
		r.Quick = s.quick && r.Killed == ""
		if err := s.keep(r); err != nil {
			return err
		}
		fmt.Printf("%3d of %d of %s: %s %s\n", i+1, len(mutants), sub.dir, r.outcome(), mutants[i].name)
	}
	return nil
}

func (s *session) due(m mutant) bool {
	r, known := s.results[m.name]
	return strings.Contains(m.name, s.only) && (!known || r.Quick && !s.quick || s.again && r.Killed == "")
}

func (r *result) outcome() string {
	if r.Killed == "" {
		return "SURVIVED"
	}
	return fmt.Sprintf("killed by %s %s in %.1f s:", r.Killed, r.By, r.CPU.Seconds())
}

// build compiles the tests of the package, and of the simulation, with all mutants, and sees them pass with none on.
func (s *session) build(ctx context.Context, sub *subject, mutants []mutant) (programs []program, err error) {
	overlay, err := rewrite(sub, mutants, s.state)
	if err != nil {
		return nil, fmt.Errorf("write the mutants of %s: %w", sub.dir, err)
	}
	for _, p := range s.programs(sub) {
		p.path, _ = filepath.Abs(filepath.Join(s.state, strings.ReplaceAll(sub.dir, "/", "-")+"-"+filepath.Base(p.dir)+".test"))
		cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", p.path, "./"+p.dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the tests of %s with the mutants of %s: %w\n%s", p.dir, sub.dir, err, out)
		}
		p.limit = 3600
		killed, by, took := p.run(ctx, 0)
		if killed {
			return nil, fmt.Errorf("the tests of %s fail without a mutant: %s", p.dir, by)
		}
		p.limit = 20 + 3*int(took.Seconds())
		programs = append(programs, p)
	}
	return programs, nil
}

// programs are those that a package's mutants meet, the quick ones first.
func (s *session) programs(sub *subject) []program {
	all := []program{{name: sub.dir, dir: sub.dir, args: []string{"-test.short"}}}
	if sub.slow != "" {
		all[0].args = append(all[0].args, "-test.skip="+sub.slow)
		all = append(all, program{name: sub.dir, dir: sub.dir, args: []string{"-test.short", "-test.run=" + sub.slow}})
	}
	if sub.long {
		all = append(all, program{name: sub.dir, dir: sub.dir})
	}
	if _, err := os.Stat("jepsen/sim"); err == nil && sub.simulated {
		all = append(all, program{name: "sim", dir: "jepsen/sim", args: []string{"-test.run=^TestSeeds$", "-sim.seeds=150"}})
	}
	if s.quick {
		return all[:1]
	}
	return all
}

// try asks one program after the other.
func try(ctx context.Context, programs []program, m *mutant, number int) (result, error) {
	r := result{Name: m.name}
	for i := range programs {
		killed, by, took := programs[i].run(ctx, number)
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		r.CPU += took
		if killed {
			r.Killed, r.By = programs[i].name, by
			return r, nil
		}
	}
	return r, nil
}

var failedPattern = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// run runs a program with the mutant on, 0 for none. Tests that do not end are noticed too.
func (p *program) run(ctx context.Context, number int) (killed bool, by string, took time.Duration) {
	args := append([]string{"-c", fmt.Sprintf(`ulimit -t %d; exec nice "$0" "$@"`, p.limit), p.path, "-test.failfast", "-test.timeout=20m"}, p.args...)
	cmd := exec.CommandContext(ctx, "sh", args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), environment+"="+fmt.Sprint(number))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, time.Second
	err := cmd.Run()
	by = "it did not end in order"
	if m := failedPattern.FindAllStringSubmatch(out.String(), -1); m != nil {
		by = m[len(m)-1][1]
	}
	if cmd.ProcessState != nil {
		took = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return err != nil, by, took
}

func (s *session) path() string { return filepath.Join(s.state, "results.jsonl") }

// load reads what an earlier run found; of a mutant twice the later counts.
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
			s.results[r.Name] = r
		}
	}
	return nil
}

// keep adds a result to the file.
func (s *session) keep(r result) (err error) {
	s.results[r.Name] = r
	f, err := os.OpenFile(s.path(), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keep a result: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return json.NewEncoder(f).Encode(r)
}
