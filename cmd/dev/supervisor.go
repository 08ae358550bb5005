package dev

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-storage/holdfast/admin"
)

const (
	// stopTimeout is how long a child may take to stop before it is killed.
	stopTimeout = 20 * time.Second
	// defaultDeathTimeout is how long a start waits for a child that was just killed to exit.
	defaultDeathTimeout = 2 * time.Second
	// defaultMinLifetime is the lifetime below which a child counts as unable to start.
	defaultMinLifetime = 5 * time.Second
)

// supervisor starts, watches and stops the children. All its state belongs to the goroutine of run.
type supervisor struct {
	opts       Options
	layout     layout
	settings   *settings
	spawner    *spawner
	order      []string // controllers, then nodes
	running    map[string]*process
	endNotices map[string]endNotice
	logFrom    map[string]int64 // offset in a child's log at which its present process begins
	exits      chan *process
	restarts   chan string
	requests   chan request
	ended      chan struct{} // closed when run returns
}

// request is a request to start a child.
type request struct {
	id     string
	answer chan error
}

func newSupervisor(o Options, l layout, s *settings) *supervisor {
	o.restartAfter = cmp.Or(o.restartAfter, time.Second)
	o.minLifetime = cmp.Or(o.minLifetime, defaultMinLifetime)
	o.deathTimeout = cmp.Or(o.deathTimeout, defaultDeathTimeout)
	return &supervisor{
		opts: o, layout: l, settings: s, spawner: newSpawner(),
		order:   append(ids("c", s.Controllers), ids("n", s.Nodes)...),
		running: map[string]*process{}, logFrom: map[string]int64{}, endNotices: map[string]endNotice{}, ended: make(chan struct{}),
		exits: make(chan *process), restarts: make(chan string), requests: make(chan request),
	}
}

// run starts all children and supervises them until ctx ends or ready returns an error. ready runs
// concurrently; when it returns nil the cluster is ready.
func (s *supervisor) run(ctx context.Context, ready func(context.Context) error) error {
	defer close(s.ended)
	readyCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := s.startAll(); err != nil {
		return errors.Join(err, s.stopAll())
	}
	readyDone := make(chan error, 1)
	go func() { readyDone <- ready(readyCtx) }()
	for {
		select {
		case <-ctx.Done():
			return s.stopAll()
		case err := <-readyDone:
			if ctx.Err() != nil {
				continue // ctx ended; that is no failure of ready
			}
			if err != nil {
				return errors.Join(err, s.stopAll())
			}
			if err := s.onReady(); err != nil {
				return errors.Join(err, s.stopAll())
			}
		case p := <-s.exits:
			s.onExit(p)
		case id := <-s.restarts:
			s.restart(id)
		case r := <-s.requests:
			s.handleStart(r)
		}
	}
}

// onReady records that the cluster was created, and prints that it is ready.
func (s *supervisor) onReady() error {
	if !s.settings.Founded {
		s.settings.Founded = true
		if err := s.settings.save(s.layout); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.opts.Stdout, "ready: %s and %s serve; see %s\n", admin.CountOf(s.settings.Controllers, "controller"),
		admin.CountOf(s.settings.Nodes, "node"), s.layout.clusterFile())
	return nil
}

func (s *supervisor) startAll() error {
	if err := s.writeClusterFile(); err != nil {
		return err
	}
	for _, id := range s.order {
		if err := s.spawn(id); err != nil {
			return err
		}
	}
	return s.writeClusterFile()
}

// spawn starts one child and reports its exit to run.
func (s *supervisor) spawn(id string) error {
	var echo io.Writer
	if s.opts.EchoLogs {
		echo = s.opts.Stderr
	}
	s.logFrom[id] = logSize(s.layout.log(id))
	p, err := s.spawner.start(id, s.opts.commandLine(s.layout, s.settings, id), s.layout.log(id), echo)
	if err != nil {
		return err
	}
	s.running[id] = p
	go func() {
		<-p.done
		select {
		case s.exits <- p:
		case <-s.ended:
		}
	}()
	return nil
}

// writeClusterFile replaces cluster.json.
func (s *supervisor) writeClusterFile() error {
	pids := map[string]int{}
	for id, p := range s.running {
		pids[id] = p.cmd.Process.Pid
	}
	return replaceJSON(s.layout.clusterFile(), clusterOf(s.layout, s.settings, pids))
}

// onExit handles the exit of a child, and plans its restart while supervising.
func (s *supervisor) onExit(p *process) {
	if s.running[p.id] != p {
		return // it was replaced already
	}
	delete(s.running, p.id)
	next := "it stays down: `holdfast dev start` starts it again"
	if s.opts.Supervise {
		next = fmt.Sprintf("it is started again in %s", s.opts.restartAfter)
		time.AfterFunc(s.opts.restartAfter, func() {
			select {
			case s.restarts <- p.id:
			case <-s.ended:
			}
		})
	}
	s.reportEnd(p, next)
	if err := s.writeClusterFile(); err != nil {
		s.warn("%v", err)
	}
}

// maxSuppressed is how many repetitions of a child's exit are suppressed before one is reported again.
const maxSuppressed = 30

// reportEnd reports how a child exited and what happens next. Repeated exits of the same kind are
// rate-limited.
func (s *supervisor) reportEnd(p *process, next string) {
	text := fmt.Sprintf("%s; %s%s", exitText(p.err), next, s.lastLogLine(p))
	last := s.endNotices[p.id]
	if last.text == text && last.repeats < maxSuppressed && time.Since(p.started) < s.opts.minLifetime {
		last.repeats++
	} else {
		last = endNotice{text: text}
		s.warn("%s (pid %d) ended: %s", p.id, p.cmd.Process.Pid, text)
	}
	s.endNotices[p.id] = last
}

// endNotice is a child's last reported exit, and how often it was repeated since.
type endNotice struct {
	text    string
	repeats int
}

func exitText(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// lastLogLine returns the last line that a child logged, or the line of its panic; nothing for one that
// was killed.
func (s *supervisor) lastLogLine(p *process) string {
	file, err := os.Open(s.layout.log(p.id))
	if err != nil || p.killed() {
		return ""
	}
	defer func() { _ = file.Close() }() // only read
	from := max(s.logFrom[p.id], logSize(file.Name())-8192)
	tail, err := io.ReadAll(io.NewSectionReader(file, from, 8192))
	if err != nil || len(bytes.TrimSpace(tail)) == 0 {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(tail)), "\n")
	last := lines[len(lines)-1]
	if at := slices.IndexFunc(lines, isPanic); at >= 0 {
		last = lines[at] // the stack trace follows
	}
	return "; its log ends with: " + last
}

func logSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

func isPanic(line string) bool {
	return strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:")
}

func (s *supervisor) restart(id string) {
	if s.running[id] != nil {
		return // it runs already
	}
	err := s.spawn(id)
	if err == nil {
		err = s.writeClusterFile()
	}
	if err != nil {
		s.warn("%v", err)
	}
}

// handleStart starts a requested child. A child that was killed a moment ago may not have been reaped
// yet.
func (s *supervisor) handleStart(r request) {
	if !slices.Contains(s.order, r.id) {
		r.answer <- fmt.Errorf("there is no %q here; there are %s", r.id, strings.Join(s.order, ", "))
		return
	}
	if p := s.running[r.id]; p != nil {
		select {
		case <-p.done:
			delete(s.running, r.id)
		case <-time.After(s.opts.deathTimeout):
			r.answer <- fmt.Errorf("%s runs already, with pid %d", r.id, p.cmd.Process.Pid)
			return
		}
	}
	err := s.spawn(r.id)
	if err == nil {
		err = s.writeClusterFile()
	}
	r.answer <- err
}

// stopAll stops the nodes first, because they still send reports to the controllers.
func (s *supervisor) stopAll() error {
	s.stop("n")
	s.stop("c")
	return s.writeClusterFile()
}

// stop stops the children whose id has the prefix: it signals them, waits, and kills those that do not exit.
func (s *supervisor) stop(prefix string) {
	var signalled []*process
	for id, p := range s.running {
		if strings.HasPrefix(id, prefix) {
			p.signal(syscall.SIGTERM)
			signalled = append(signalled, p)
		}
	}
	timeout := time.After(stopTimeout)
	for _, p := range signalled {
		select {
		case <-p.done:
		case <-timeout:
			s.warn("%s did not stop within %s and is killed", p.id, stopTimeout)
			for _, child := range signalled {
				child.signal(syscall.SIGKILL)
			}
			timeout = nil
			<-p.done
		}
		delete(s.running, p.id)
	}
}

func (s *supervisor) warn(format string, args ...any) {
	fmt.Fprintf(s.opts.Stderr, "holdfast dev %s: %s\n", filepath.Base(s.layout.dir), fmt.Sprintf(format, args...))
}
