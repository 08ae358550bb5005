package scenarios

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/jepsen/lab"
	"github.com/holdfast-storage/holdfast/jepsen/lab/stamps"
)

var sitesSeed = flag.Uint64("sites.seed", 0, "seed of the managers of two sites under random partitions; 0: of the clock")

// manager is one cluster's manager of VolumeReplication, with the workload that uses the volume there. It repeats its
// calls, forgets what it knew when it is restarted, and then follows for some steps what was wanted before.
type manager struct {
	g       *managersRun
	s       *site
	wanted  bool // to be primary
	before  bool // what was wanted before that
	stale   int  // for so many steps it follows that
	primary bool // its object's status says so
	staged  bool // or it may be
	writer  *writer
}

// managersRun is one run of both managers under faults.
type managersRun struct {
	*relation
	t        *testing.T
	rng      *rand.Rand
	managers [2]*manager
	writers  []*writer // of the turns
	givenUp  string    // the index of the last forced promotion that a turn followed
	began    time.Time
	late     sync.WaitGroup // calls that are under way for long
}

// stepTimeout is for one call of a manager: it is repeated in a later step.
const stepTimeout = 3 * time.Second

// Two managers follow what people want of their sites, with calls that are repeated, late, out of order, and of a
// manager that was restarted with what was wanted before, under random partitions. At no time do two sites use the
// volume; no acknowledged write is lost unless a promotion was forced; and in the end both sites are what is wanted.
func TestS38_S39_S41_ManagersUnderPartitions(t *testing.T) {
	_, a, b := newSites(t)
	seed := *sitesSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-sites.seed=%d", seed)
	g := &managersRun{relation: newRelation(t, a, b, "managed", true), t: t, rng: rand.New(rand.NewPCG(seed, 1)), began: time.Now()}
	g.managers = [2]*manager{{g: g, s: a, wanted: true}, {g: g, s: b}}
	length := 45 * time.Second
	if *long {
		length = 20 * time.Minute
	}
	for time.Since(g.began) < length {
		g.fault()
		for range 3 {
			g.step()
		}
	}
	g.converge()
	g.remove(t, a)
}

// step has one of the managers, or its workload, do what comes next.
func (g *managersRun) step() {
	m := g.managers[g.rng.IntN(2)]
	if g.rng.IntN(4) == 0 {
		g.callLate(m)
	}
	m.reconcile()
	m.work()
	g.requireOneSite()
}

// fault changes what is wanted, restarts a manager, or cuts or connects networks.
func (g *managersRun) fault() {
	m := g.managers[g.rng.IntN(2)]
	other := g.managers[0]
	if m == other {
		other = g.managers[1]
	}
	what := ""
	switch g.rng.IntN(6) {
	case 0, 1:
		what = "the role is wanted at " + m.s.name
		m.want(true)
		if g.rng.IntN(2) == 0 { // else the other one hears of it later
			other.want(false)
		}
	case 2:
		what = m.s.name + "'s manager is restarted"
		m.primary, m.stale = false, g.rng.IntN(3)
	case 3:
		what = m.s.name + " alone is cut off" // the other one and the witness are a quorum
		g.w.reconnect(g.t)
		m.s.cutOff(g.t, [][]lab.Network{{lab.Replication}, {lab.API}, {lab.Replication, lab.API}}[g.rng.IntN(3)]...)
	default:
		what = "the networks are connected"
		g.w.reconnect(g.t)
	}
	g.t.Logf("%s %s", time.Since(g.began).Round(time.Millisecond), what)
}

func (m *manager) want(primary bool) {
	if m.wanted != primary {
		m.before, m.wanted, m.primary = m.wanted, primary, false
	}
}

// callLate repeats one of the manager's calls after a while, as a message that was under way for long.
func (g *managersRun) callLate(m *manager) {
	delay, demote := time.Duration(g.rng.IntN(3000))*time.Millisecond, g.rng.IntN(2) == 0
	g.late.Add(1)
	time.AfterFunc(delay, func() {
		defer g.late.Done()
		ctx, cancel := context.WithTimeout(g.t.Context(), stepTimeout)
		defer cancel()
		if demote {
			_ = g.demoteOnce(ctx, m.s.replication[0], m.s) // whatever it is answered
			return
		}
		_ = g.promoteOnce(ctx, m.s.replication[0], m.s, false)
	})
}

// reconcile makes one pass, as the controller of VolumeReplication does.
func (m *manager) reconcile() {
	ctx, cancel := context.WithTimeout(m.g.t.Context(), stepTimeout)
	defer cancel()
	wanted := m.wanted
	if m.stale > 0 {
		m.stale--
		wanted = m.before
	}
	c := m.s.replication[0]
	if !wanted {
		m.primary = false
		if m.g.demoteOnce(ctx, c, m.s) == nil {
			_, _ = m.g.resyncOnce(ctx, c, m.s, true) // it is repeated until it is ready
		}
		return
	}
	if m.primary {
		return // it asks for the replication only
	}
	err := m.g.promoteOnce(ctx, c, m.s, false)
	if status.Code(err) == codes.FailedPrecondition {
		m.g.t.Logf("%s forces: %v", m.s.name, err)
		err = m.g.promoteOnce(ctx, c, m.s, true)
	}
	m.primary = err == nil
}

// work begins the workload where the site has the role, and ends it where that is not wanted or where it failed.
func (m *manager) work() {
	v := m.g.volumes[m.s][0]
	node := m.s.host(m.g.t, v)
	ctx, cancel := context.WithTimeout(m.g.t.Context(), callTimeout)
	defer cancel()
	failed := m.writer != nil && m.writer.readAcks().Error != ""
	switch {
	case m.writer == nil && m.primary && !m.staged:
		m.staged = true
		if m.tryStage(ctx, v, node) == nil {
			m.writer = m.g.turn(m.s, v, node)
		}
	case m.staged && (!m.wanted || failed || m.writer == nil):
		m.stop(ctx, v, node)
	}
}

// tryStage makes one attempt.
func (m *manager) tryStage(ctx context.Context, v *volume, node string) error {
	resp, err := m.s.controllers[0].ControllerPublishVolume(ctx, m.s.publishRequest(v, node))
	if err != nil {
		return err
	}
	v.publishContext = resp.GetPublishContext()
	return m.s.stage(ctx, v, node)
}

// stop makes one attempt to end the use of the volume.
func (m *manager) stop(ctx context.Context, v *volume, node string) {
	if m.writer != nil {
		_ = m.writer.job.Kill(ctx) // it may have ended
		if m.g.w.hasStuckFlush(ctx, m.writer) {
			m.g.restart(node)
		}
	}
	if m.s.unstage(ctx, v, node) == nil && m.s.unpublish(ctx, v, node) == nil {
		m.writer, m.staged = nil, false
	}
}

// restart does what an operator must do where the kernel is stuck.
func (g *managersRun) restart(node string) {
	require.NoError(g.t, g.w.guest(node).Crash())
	require.NoError(g.t, g.w.bootGuest(g.t.Context(), g.w.guest(node)))
}

// turn begins a turn, as far as the volume can be written to.
func (g *managersRun) turn(s *site, v *volume, node string) *writer {
	g.readAll()
	state := g.readState()
	forced := false
	if up := state.Relation.GivenUp; up != nil && up.Index.String() != g.givenUp {
		forced, g.givenUp = true, up.Index.String()
	}
	stamp := stamps.Stamp{Site: s.name, Node: node, Epoch: "role-" + state.Relation.Role.String(), Turn: len(g.turns) + 1}
	from := stamps.Next(g.turns)
	g.turns = append(g.turns, stamps.Turn{Stamp: stamp, From: from, Acked: from - 1, Forced: forced})
	g.t.Logf("%s turn %+v", time.Since(g.began).Round(time.Millisecond), g.turns[len(g.turns)-1])
	x := g.w.newWriter(g.t, v, node, stamp.String(), from, eagerBlocks)
	g.writers = append(g.writers, x)
	return x
}

// readState reads the log, as soon as there is a leader.
func (g *managersRun) readState() (state volumeState) {
	eventually(g.t, timeout, "the log is read", func(ctx context.Context) (err error) {
		if state, err = g.w.logState(ctx, g.volumes[g.sites[0]][0]); err == nil && state.Relation == nil {
			err = fmt.Errorf("it has no relation")
		}
		return err
	})
	return state
}

// readAll brings all turns up to date.
func (g *managersRun) readAll() {
	for i, x := range g.writers {
		g.turns[i].Acked = max(g.turns[i].Acked, x.readAcks().Number)
	}
}

// requireOneSite requires of the log that the volume is published at one site at most, the one that has the role.
func (g *managersRun) requireOneSite() {
	state := g.readState()
	for _, p := range state.Publications {
		at := g.w.layout.sites[g.w.guest(p.Node).Index-1]
		require.Equal(g.t, state.Relation.Primary, at, "it is published at %s", p.Node)
	}
}

// converge ends all faults: in the end site A is primary, site B has everything, and the workload at A goes on. The managers are
// restarted once no call is under way: one that has seen its promotion asks for it no more, and a late call may have demoted it.
func (g *managersRun) converge() {
	require.NoError(g.t, g.w.restore(g.t.Context()))
	g.late.Wait()
	a, b := g.managers[0], g.managers[1]
	a.want(true)
	b.want(false)
	for _, m := range g.managers {
		m.primary, m.stale = false, 0
	}
	eventually(g.t, resyncTimeout, "both sites are what is wanted", func(ctx context.Context) error {
		for _, m := range g.managers {
			m.reconcile()
			m.work()
		}
		if !a.primary || b.staged || a.writer == nil {
			return fmt.Errorf("A is primary: %t, used there: %t, used at B: %t", a.primary, a.writer != nil, b.staged)
		}
		return a.writer.isWriting()
	})
	g.readAll()
	g.writer = a.writer
	g.awaitReady(g.t, b.s, true)
	last := a.writer.stop(g.t)
	require.Empty(g.t, last.Error)
	a.writer.ended = true
	g.readAll()
	g.unstage(g.t, a.s)
	g.judge(g.t)
}

// isWriting is nil when something was acknowledged within a second.
func (x *writer) isWriting() error {
	before := x.readAcks()
	time.Sleep(time.Second) // the property is about time
	if after := x.readAcks(); after.Number <= before.Number {
		return fmt.Errorf("it stays at %+v", after)
	}
	return nil
}
