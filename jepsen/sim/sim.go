package sim

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

const (
	clusterName = "sim"
	gib         = int64(1) << 30
)

// phase is what the driver does now.
type phase int

const (
	phaseFaults phase = iota
	phaseHealing
	phaseOver
)

// Sim is one run of one tape.
type Sim struct {
	tape    *tape
	trace   *trace
	options options
	reseed  func(step int)
	began   time.Time
	dir     string // of the hosts' records
	life    context.Context
	end     context.CancelFunc
	phase   phase

	mu      sync.Mutex
	failure string

	pending     *pendingEvents
	world       *backendtest.World
	net         *network
	log         *orderedLog
	members     []*member
	memberNames []string
	hosts       []*host
	aims        []*aim
	scene       *scene // nil: none is played
	handlersDie bool   // before they ask
	clients     *clients
	faults      *faults
	checks      *checks
	settled     int // counts the steps, those of healing too
	counts      map[string]int
	crashedAt   map[string]int
	hits        map[string]int // guarded by mu
}

// options are what differs between seeds from the beginning.
type options struct {
	hosts, members int
	steps          int
	faultInterval  int // steps between two faults, about
	healthInterval time.Duration
	replaceAfter   time.Duration
	keptRetention  time.Duration
	fullCopies     bool
	twoPools       bool
	verifyInterval time.Duration
	capacity       int64 // of each pool
	encrypted      bool  // some of the volumes
	sites          bool  // there are two
	roles          bool  // some volumes are replicated between them
	groups         bool  // these are of one group
}

// pools are those of one host.
func (o *options) pools(number int) []backendtest.PoolConfig {
	all := []backendtest.PoolConfig{{ID: fsm.PoolID(fmt.Sprintf("hp-n%d-a", number)), Kind: "loopfile", Capacity: o.capacity, FullCopies: o.fullCopies}}
	if o.twoPools {
		all = append(all, backendtest.PoolConfig{ID: fsm.PoolID(fmt.Sprintf("hp-n%d-b", number)), Kind: "lvm", Capacity: o.capacity})
	}
	return all
}

// chooseOptions reads them from the beginning of the tape.
func chooseOptions(t *tape, steps int) options {
	return options{
		hosts: 2 + t.pick(3), members: 1 + t.pick(3), steps: steps, faultInterval: 12 << t.pick(5),
		healthInterval: []time.Duration{10 * time.Second, neverRecheck}[t.pick(2)],
		replaceAfter:   []time.Duration{0, 0, 20 * time.Second}[t.pick(3)],
		keptRetention:  []time.Duration{0, 30 * time.Second}[t.pick(2)],
		fullCopies:     t.oneIn(4), twoPools: t.oneIn(4),
	}
}

// addExtras adds those of the seed. Two sites have two hosts each.
func (o *options) addExtras(x Extras) {
	o.encrypted, o.sites, o.roles, o.groups = x.Encrypted, x.Sites, x.Roles, x.Groups
	if x.Sites {
		o.hosts, o.members = 4, max(2, o.members)
	}
	if x.Roles {
		o.steps *= 2
	}
}

// newSim builds the cluster. It must be called in a bubble.
func newSim(t *tape, c Config) *Sim {
	s := &Sim{
		tape: t, trace: newTrace(c.Story), pending: newPendingEvents(), began: time.Now(), dir: c.Dir,
		reseed: c.Reseed, counts: map[string]int{}, crashedAt: map[string]int{}, hits: map[string]int{},
	}
	s.options = chooseOptions(t, c.Steps)
	s.options.addExtras(c.Extras)
	if s.scene = sceneThatLeadsTo(c.Aims, c.Round); s.scene != nil && s.scene.prepare != nil {
		s.scene.prepare(&s.options)
	}
	s.life, s.end = context.WithCancel(context.Background())
	s.world = backendtest.NewWorld(gates{s})
	s.net = newNetwork(s)
	s.checks = &checks{s: s, copies: newCopies(s), hosts: newHosts(s), volumes: newVolumes(s), keys: newKeyChecks(s), sites: &siteChecks{s}}
	s.log = &orderedLog{s: s, state: fsm.New(), forced: map[fsm.VolumeID]bool{}}
	s.clients = newClients(s)
	s.faults = &faults{s: s}
	for _, name := range c.Aims {
		s.aims = append(s.aims, &aim{name: name, skip: max(0, t.pick(5)-3), power: t.pick(2) == 1})
	}
	s.build()
	return s
}

// build starts the controllers and the hosts.
func (s *Sim) build() {
	s.log.append(&fsmpb.Command{RequestId: s.requestID(), Actor: "controller/c1", Body: &fsmpb.Command_Bootstrap{Bootstrap: &fsmpb.Bootstrap{
		ClusterId: clusterName, IncarnationId: []byte("0123456789abcdef"), FeatureLevel: fsm.MaxFeatureLevel,
	}}})
	for i := range s.options.members {
		s.memberNames = append(s.memberNames, fmt.Sprintf("c%d", i+1))
	}
	for _, name := range s.memberNames {
		s.members = append(s.members, s.startMember(name))
	}
	if s.options.sites {
		s.nameSites()
	}
	s.log.elect(s.members[0])
	for i := range s.options.hosts {
		s.addHost(i + 1).start()
	}
}

// note adds to the trace.
func (s *Sim) note(format string, args ...any) {
	s.trace.note(int64(time.Since(s.began)), fmt.Sprintf(format, args...))
}

// fail notes the first thing that must not be. The text before the colon is its kind.
func (s *Sim) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.mu.Lock()
	if s.failure == "" {
		s.failure = text
	}
	s.mu.Unlock()
}

func (s *Sim) failed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure != ""
}

// close ends every process and waits for nothing: the bubble's end shows who did not end.
func (s *Sim) close() {
	s.phase = phaseOver
	for _, h := range s.hosts {
		if h.process != nil {
			h.process.crash()
		}
	}
	for _, m := range s.members {
		m.crash()
	}
	s.end()
	_ = os.RemoveAll(s.dir)
}
