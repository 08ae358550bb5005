package sim

import (
	"cmp"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
)

const (
	healingTime  = 6 * time.Minute // simulated
	healingSteps = 20_000
	// After so many steps some time passes although more could happen: kernels and networks that take
	// no time at all must not keep a host from the end of its backoff.
	stepsWithoutTime = 50
	timeBetween      = 100 * time.Millisecond
)

// heal mends everything, and then all must come to its end without another push: calls are repeated
// until they succeed, every volume can be used and holds what was acknowledged, and nothing is left of it.
func (s *Sim) heal() {
	s.mend()
	began, h := time.Now(), newHealer(s)
	for step := range healingSteps {
		if step%stepsWithoutTime == stepsWithoutTime-1 {
			time.Sleep(timeBetween)
		}
		if s.settle(); s.failed() || h.done() {
			return
		}
		s.trace.steps++
		if time.Since(began) > healingTime {
			break
		}
		if !s.healingStep(h) {
			s.sleep(time.Second)
		}
	}
	if time.Since(began) <= healingTime {
		s.fail("liveness: the same happens again and again, and %s", h.unfinished())
		return
	}
	s.fail("liveness: all was mended, and %s", h.unfinished())
}

// mend ends all faults.
func (s *Sim) mend() {
	s.phase = phaseHealing
	s.note("everything is mended")
	s.faults.mendLinks()
	s.faults.mendPools()
	for i, m := range s.members {
		if !m.up() {
			s.members[i] = s.startMember(m.name)
		}
	}
	if s.log.leader == nil {
		s.log.elect(s.members[0])
	}
	for _, host := range s.hosts {
		s.faults.start(host)
	}
}

// healingStep lets one thing happen; false when there is nothing but to wait.
func (s *Sim) healingStep(h *healer) bool {
	if s.crashWhereAimed() {
		return true
	}
	for _, host := range s.hosts {
		if host.fence && host.process != nil {
			s.note("%s restarts to fence itself", host.name)
			host.crash()
			host.world.Reboot()
			host.fence = false
		}
		s.faults.start(host)
	}
	var writers, others []*event
	for _, e := range s.readyEvents() {
		if e.isWriter() {
			writers = append(writers, e)
		} else {
			others = append(others, e)
		}
	}
	switch {
	case len(others) > 0:
		s.release(others[s.tape.pick(len(others))], false)
		return true
	case h.begin():
		return true
	case len(writers) > 0:
		s.release(writers[s.tape.pick(len(writers))], false)
	}
	return false
}

// healer brings every claim to its end.
type healer struct {
	s      *Sim
	claims []*healing
	open   int
	wait   time.Time // no call before
	last   string    // error

	unfencing bool // a call that ends a fence is open
}

// healing is one claim on its way.
type healing struct {
	claim   *claim
	stage   healingStage
	use     *use
	host    int
	open    bool
	retryAt time.Time
	lastErr string
	refused string // the last error of a publication
}

type healingStage int

const (
	stageDown    healingStage = iota // everything that may be up is taken down, on every host
	stageRole                        // one site gets the role, where it is replicated between two
	stagePublish                     // then it is brought up on one
	stageStage
	stageBind
	stageWrite // and written and read
	stageExpand
	stageExpandNode
	stageModify
	stageRotate
	stageSnapshot
	stageResync
	stageUnbind
	stageUnstage
	stageUnpublish
	stageDisable
	stageCleanSnapshots
	stageDelete
	stageDone
)

func newHealer(s *Sim) *healer {
	h := &healer{s: s}
	for _, c := range s.clients.claims {
		h.claims = append(h.claims, &healing{claim: c})
	}
	return h
}

func (h *healer) done() bool {
	for _, g := range h.claims {
		if g.stage != stageDone {
			return false
		}
		if _, again := g.claim.volume(); again { // a late call made another
			g.stage, g.host = stageDown, 0
			return false
		}
	}
	return h.s.cleanEnd()
}

func (h *healer) unfinished() string {
	for _, g := range h.claims {
		if g.stage != stageDone {
			return g.claim.name + " does not come to an end (stage " + stageNames[g.stage] + "): " + cmp.Or(g.lastErr, g.refused)
		}
	}
	return h.s.whatIsLeft()
}

var stageNames = []string{"down", "role", "publish", "stage", "bind", "write", "expand", "expand-node", "modify", "rotate", "snapshot", "resync", "unbind", "unstage", "unpublish", "disable", "snapshots", "delete", "done"}

// begin begins the next call of a claim, when there is one.
func (h *healer) begin() bool {
	if h.s.clients.open > 0 && h.s.clients.open >= maxOpenCalls {
		return false
	}
	if h.unfence() {
		return true
	}
	for _, g := range h.claims {
		if g.open || time.Now().Before(g.retryAt) || g.claim.open > 0 {
			continue
		}
		if call := g.next(); call != nil {
			g.run(call)
			return true
		}
	}
	return h.s.cleanUp()
}

// run begins a call, and goes on when it succeeded.
func (g *healing) run(call *csiCall) {
	g.open = true
	done := call.done
	call.timeout = 30 * time.Second
	call.done = func(err error) {
		g.open = false
		if done != nil {
			done(err)
		}
		if err == nil || isNotFound(err) && g.mayBeGone() {
			g.advance()
			return
		}
		g.lastErr, g.retryAt = err.Error(), time.Now().Add(time.Second)
		if g.stage == stagePublish {
			g.refused = g.lastErr
		}
		g.decide()
		g.giveUp()
		if g.stage == stagePublish && status.Code(err) == codes.FailedPrecondition { // a late call published it elsewhere
			g.stage, g.host = stageDown, 0
		}
		g.noticeReboot()
	}
	g.atHome(call)
	g.claim.s.clients.begin(call)
}

// noticeReboot: after a boot of its host the orchestrator begins with the staging again.
func (g *healing) noticeReboot() {
	if g.stage > stageStage && g.stage <= stageUnbind && g.use.boot != g.use.host.world.BootID() {
		g.use.noticeReboot()
		g.stage = stageStage
	}
}

// mayBeGone: what is taken down is down when there is no such volume.
func (g *healing) mayBeGone() bool {
	return g.stage == stageDown || g.stage >= stageUnbind
}

// advance goes to the next host, or to the next stage.
func (g *healing) advance() {
	if g.stage == stageDown {
		if g.host++; g.host < 3*len(g.claim.s.hosts) {
			return
		}
	}
	g.stage, g.lastErr = g.stage+1, ""
	if g.stage == stagePublish && g.claim.roles != nil && g.claim.roles.group == nil {
		g.claim.roles.primary = ""
	}
	if g.stage == stageRotate && g.claim.keys == nil {
		g.stage++
	}
}

// next is the call of the stage; nil when there is none to make now.
func (g *healing) next() *csiCall {
	c := g.claim
	v, exists := c.volume()
	if exists {
		c.id = string(v.ID)
	} else if g.stage < stageCleanSnapshots {
		c.endWriters()
		c.id, g.stage = "", stageCleanSnapshots
	}
	g.noticeReboot()
	switch g.stage {
	case stageDown:
		u := c.useOn(c.s.hosts[g.host/3])
		u.noticeReboot()
		return []func() *csiCall{u.unbind, u.unstage, u.unpublish}[g.host%3]()
	case stageRole:
		return g.role()
	case stageResync:
		return g.resynced()
	case stageDisable:
		return g.disabled()
	case stagePublish:
		if !isReady(v) {
			g.stage = stageCleanSnapshots
			return nil
		}
		g.use = c.useOn(g.chooseHost(v))
		g.use.noticeReboot()
		return g.use.publish()
	case stageStage:
		return g.use.stage()
	case stageBind:
		return g.use.bind()
	case stageWrite:
		return g.write(v)
	case stageExpand:
		return g.maybe(c.expand)
	case stageExpandNode:
		return g.maybe(g.use.expandNode)
	case stageModify:
		return g.maybe(func() *csiCall { return c.modify(500) })
	case stageRotate:
		return g.maybe(g.use.rotate)
	case stageSnapshot:
		if c.fsType == "" { // nobody can say when a raw volume is consistent
			g.advance()
			return nil
		}
		if _, _, taken := c.takenSnapshot(); taken { // perhaps of an earlier volume of the name
			g.advance()
			return nil
		}
		return g.maybe(c.takeSnapshot)
	case stageUnbind:
		return g.use.unbind()
	case stageUnstage:
		return g.use.unstage()
	case stageUnpublish:
		return g.use.unpublish()
	case stageCleanSnapshots:
		return g.cleanSnapshots()
	case stageDelete:
		return g.deleteVolume(exists)
	}
	return nil
}

// maybe makes a call in some runs, and then until it succeeds.
func (g *healing) maybe(call func() *csiCall) *csiCall {
	if g.lastErr == "" && g.claim.s.tape.pick(3) > 0 {
		g.advance()
		return nil
	}
	return call()
}

// wait has the stage look again after a while.
func (g *healing) wait(why string) { g.lastErr, g.retryAt = why, time.Now().Add(time.Second) }

// isReady: a volume whose creation has not ended is deleted as it is.
func isReady(v *fsm.Volume) bool {
	_, ready := v.Phase.(fsm.Ready)
	return ready && v.CreateFailure() == nil
}

// chooseHost is one of the volume's hosts.
func (g *healing) chooseHost(v *fsm.Volume) *host {
	var all []*host
	for _, h := range g.claim.hosts() {
		n, _ := g.claim.s.log.state.Node(fsm.NodeID(h.name))
		if n != nil && v.Replica(n.Host) != nil && g.mayUse(h, v) {
			all = append(all, h)
		}
	}
	if len(all) == 0 {
		return g.claim.hosts()[0]
	}
	return all[g.claim.s.tape.pick(len(all))]
}

// write waits until the volume has been written once more, and reads what it holds.
func (g *healing) write(v *fsm.Volume) *csiCall {
	s, u := g.claim.s, g.use
	if u.writer == nil {
		u.openWriter()
	}
	if u.writer == nil {
		g.lastErr, g.retryAt = "it cannot be written", time.Now().Add(time.Second)
		return nil
	}
	if !u.unsynced {
		u.write()
		return nil
	}
	before := s.counts["acknowledged writes"]
	if u.sync(); s.counts["acknowledged writes"] == before {
		g.lastErr, g.retryAt = "a write is not acknowledged", time.Now().Add(time.Second)
		return nil
	}
	found, err := u.host.world.ReadStamps(u.usePath())
	if err != nil {
		g.lastErr, g.retryAt = err.Error(), time.Now().Add(time.Second)
		g.decide()
		return nil
	}
	if err := s.world.Ledger().CheckKept(v.ID, found); err != nil && !s.log.forced[v.ID] {
		s.fail("stamps: %s on %s: %v", g.claim.name, u.host.name, err)
	}
	g.stage++
	return nil
}
