package faultfs

import (
	"path"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is what goes wrong.
type Fault uint8

// The faults.
const (
	// FailSync fails syncs with EIO; the next one that succeeds makes all durable.
	FailSync Fault = iota + 1
	// FailSyncForget fails syncs with EIO and takes what they should have written for clean.
	FailSyncForget
	// FailWrite fails writes with EIO before they change anything.
	FailWrite
	// FailRead fails reads with EIO. A page that the kernel holds is not read.
	FailRead
	// NoSpace fails what needs space with ENOSPC.
	NoSpace
	// TornWrite writes the first half of what is written, then fails with EIO.
	TornWrite
	// Hang blocks writes, syncs and changes of names until the injection ends.
	Hang
	// Slow delays what Hang blocks.
	Slow
	// HangName blocks changes of names until the injection ends.
	HangName
)

func (f Fault) String() string {
	return [...]string{"?", "failing sync", "failing sync that forgets", "failing write", "failing read", "no space", "torn write", "hang", "slow", "hang of names"}[f]
}

// operation is what a process asks the filesystem for.
type operation uint8

const (
	opRead operation = iota + 1
	opWrite
	opSync
	opAllocate // needs space, and writes nothing
	opName     // makes a name, which needs space
	opUnname   // renames or removes one
)

// hits are the operations that each fault concerns.
var hits = map[Fault][]operation{
	FailSync: {opSync}, FailSyncForget: {opSync}, FailWrite: {opWrite}, FailRead: {opRead}, TornWrite: {opWrite},
	NoSpace: {opWrite, opAllocate, opName},
	Hang:    {opWrite, opSync, opAllocate, opName, opUnname},
	Slow:    {opWrite, opSync, opAllocate, opName, opUnname},

	HangName: {opName, opUnname},
}

// Rule says which operations fail, and how.
type Rule struct {
	Fault Fault
	// Files is a pattern as path.Match has it, of the file's path in the filesystem or of its last
	// element; all files when it is empty.
	Files string
	// After is how many operations pass before one fails.
	After int
	// Times is how many operations fail; all until the injection ends when it is zero.
	Times int
	// Delay is by how much Slow does it.
	Delay time.Duration
}

// Injection is a rule that is in force.
type Injection struct {
	rules  *rules
	rule   Rule
	passed int // operations, of the rule's After
	hits   atomic.Int64
	ended  chan struct{}
	once   sync.Once
}

// Hits is how many operations have failed or hung by it so far.
func (i *Injection) Hits() int { return int(i.hits.Load()) }

// End ends it, and lets what hangs by it go on. It may be called again.
func (i *Injection) End() {
	i.once.Do(func() {
		i.rules.remove(i)
		close(i.ended)
	})
}

// rules are the injections in force.
type rules struct {
	mu    sync.Mutex
	since []*Injection
	over  bool // there will be none any more
}

// Inject puts a rule in force, unless Unmount was called: nothing may hang by it then. Where several match, the earliest does.
func (f *FS) Inject(r Rule) *Injection {
	i := &Injection{rules: &f.rules, rule: r, ended: make(chan struct{})}
	f.rules.mu.Lock()
	defer f.rules.mu.Unlock()
	if !f.rules.over {
		f.rules.since = append(f.rules.since, i)
	}
	return i
}

// Heal ends all injections.
func (f *FS) Heal() { f.rules.heal() }

func (r *rules) heal() {
	r.mu.Lock()
	all := slices.Clone(r.since)
	r.mu.Unlock()
	for _, i := range all {
		i.End()
	}
}

// end ends all injections, and those that are still to come.
func (r *rules) end() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	r.heal()
}

func (r *rules) remove(gone *Injection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.since = slices.DeleteFunc(r.since, func(i *Injection) bool { return i == gone })
}

// check is the fault of an operation on a file, zero when there is none. It waits while one hangs or is slow.
func (r *rules) check(op operation, file string) Fault {
	for {
		i := r.find(op, file)
		switch {
		case i == nil:
			return 0
		case i.rule.Fault == Hang, i.rule.Fault == HangName:
			<-i.ended
		case i.rule.Fault == Slow:
			i.delay()
			return 0
		default:
			return i.rule.Fault
		}
	}
}

// delay waits as long as the rule says, or until the injection ends.
func (i *Injection) delay() {
	select {
	case <-i.ended:
	case <-time.After(i.rule.Delay):
	}
}

func (r *rules) find(op operation, file string) *Injection {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range r.since {
		if !i.rule.matches(op, file) || i.rule.Times != 0 && i.Hits() >= i.rule.Times {
			continue
		}
		if i.passed < i.rule.After {
			i.passed++
			continue
		}
		i.hits.Add(1)
		return i
	}
	return nil
}

func (r Rule) matches(op operation, file string) bool {
	if !slices.Contains(hits[r.Fault], op) {
		return false
	}
	whole, _ := path.Match(r.Files, file)
	last, _ := path.Match(r.Files, path.Base(file))
	return r.Files == "" || whole || last
}
