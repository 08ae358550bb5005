package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// maxOpenCalls bounds the calls under way.
const maxOpenCalls = 6

// clients are all callers: an orchestrator whose volumes have few names, and operators.
type clients struct {
	s      *Sim
	claims []*claim
	open   int
	number int
	late   []*csiCall // ended calls that may be repeated much later
}

// claim is a name that volumes have, one after the other.
type claim struct {
	s        *Sim
	name     string
	replicas string
	protocol string
	fsType   string // empty: raw block
	size     int64
	source   *claim // it is made from a snapshot of this one, or from itself
	id       string // of the volume, by the last answer
	uses     []*use // by node
	snapshot string // the id of a snapshot of it, by the last answer
	groupID  string
	members  []string // snapshots of the group
	fromSnap bool
	open     int
	keys     *keys // nil: it is in clear
	site     fsm.Site
	metro    bool   // it has a replica at each site
	twin     *claim // of the same name at the other site
	roles    *roles // nil: no orchestrator asks for a role of it
}

// use is what the orchestrator believes of a claim on one node.
type use struct {
	claim    *claim
	host     *host
	context  map[string]string // of the publication; nil: not published
	staged   bool
	bound    bool
	closing  bool // it is being taken down
	boot     string
	writer   *backendtest.Writer
	unsynced bool
	epoch    fsm.Epoch
}

func newClients(s *Sim) *clients {
	c := &clients{s: s}
	add := func(name, replicas, fsType string, size int64) *claim {
		claim := &claim{s: s, name: name, replicas: replicas, fsType: fsType, size: size}
		c.claims = append(c.claims, claim)
		return claim
	}
	local := add("local", "1", "ext4", 64<<20)
	pair := add("pair", "2", "ext4", 64<<20)
	add("pair-block", "2", "", 32<<20)
	add("pair-xfs", "2", "xfs", fsm.MinXFSSize)
	if s.tape.pick(2) == 1 {
		asynchronous := add("pair-a", "2", "ext4", 64<<20)
		asynchronous.protocol = "A"
	}
	clone := add("local-clone", "1", "ext4", 64<<20)
	clone.source = local
	restored := add("pair-restored", "2", "ext4", 64<<20)
	restored.source, restored.fromSnap = pair, true
	var encrypted *claim
	if s.options.encrypted {
		encrypted = c.addEncrypted()
	}
	if s.options.sites {
		c.addTwins()
	}
	c.choose(encrypted)
	return c
}

// choose keeps a few of the claims, with their sources, so that there is much of each; and this one, where there is it.
func (c *clients) choose(always *claim) {
	kept := map[*claim]bool{}
	if always != nil {
		kept[always], kept[always.source] = true, true
	}
	for range 1 + c.s.tape.pick(4) {
		one := c.claims[c.s.tape.pick(len(c.claims))]
		kept[one] = true
		if one.source != nil {
			kept[one.source] = true
		}
	}
	if c.s.options.roles {
		kept = c.withRoles()
	}
	if c.s.scene != nil {
		for _, one := range c.claims {
			kept[one] = kept[one] || slices.Contains(c.s.scene.claims, one.name)
		}
	}
	if !c.s.options.roles {
		keepTwins(kept)
	}
	c.claims = slices.DeleteFunc(c.claims, func(one *claim) bool { return !kept[one] })
}

// useOn is what is believed of the claim on a host.
func (c *claim) useOn(h *host) *use {
	for _, u := range c.uses {
		if u.host == h {
			return u
		}
	}
	u := &use{claim: c, host: h}
	c.uses = append(c.uses, u)
	return u
}

func (u *use) stagingPath() string { return "/kubelet/" + u.claim.name + "/staging" }
func (u *use) targetPath() string  { return "/kubelet/pods/" + u.claim.name + "/target" }

// usePath is where the volume can be written.
func (u *use) usePath() string { return u.targetPath() }

// forget: what was up on the host is down.
func (u *use) forget() { u.staged, u.bound, u.writer = false, false, nil }

// csiCall is one call of an orchestrator or an operator.
type csiCall struct {
	name    string
	host    *host // whose node service is called; nil: a controller's
	timeout time.Duration
	do      func(ctx context.Context, m *member, p *process) error
	done    func(err error) // in the driver
	claim   *claim
	site    fsm.Site // whose controllers are called, unless it is an operator's
	volume  string   // that it is about
	// misrouted: that is not the site that it should be.
	misrouted bool
	fixed     bool // it is never made at another site
}

// act begins a call, when not too many are under way.
func (c *clients) act() bool {
	if c.open >= maxOpenCalls {
		return false
	}
	if len(c.late) > 0 && c.s.tape.oneIn(24) {
		call := *c.late[c.s.tape.pick(len(c.late))]
		call.name += " once more"
		c.begin(&call)
		return true
	}
	if c.s.tape.oneIn(20) {
		if call := c.operatorCall(); call != nil {
			c.begin(call)
			return true
		}
	}
	claim := c.claims[c.s.tape.pick(len(c.claims))]
	if claim.open >= 2 {
		return false
	}
	call := claim.nextCall(c.s.tape.oneIn(4))
	if claim.roles != nil && claim.id != "" && c.s.tape.pick(2) == 0 {
		call = claim.roles.nextCall()
	}
	if call == nil {
		return false
	}
	c.misroute(call)
	c.begin(call)
	return true
}

var timeouts = []time.Duration{30 * time.Second, 10 * time.Second, 2 * time.Second, 300 * time.Millisecond}

// begin makes a call. Its answer is an event.
func (c *clients) begin(call *csiCall) {
	s := c.s
	c.number++
	c.open++
	s.counts["call "+call.kind()]++
	key := fmt.Sprintf("call %d %s", c.number, call.name)
	if call.timeout == 0 {
		call.timeout = timeouts[s.tape.pick(len(timeouts))]
	}
	if call.claim != nil {
		call.claim.open++
	}
	members := s.members
	if call.claim != nil {
		members = s.membersAt(call.site)
	}
	m, p := members[s.tape.pick(len(members))], (*process)(nil)
	life := m.life
	if call.host != nil {
		if p = call.host.process; p == nil {
			c.ended(call, key, status.Error(codes.Unavailable, "no process"))
			return
		}
		life = p.life
	}
	s.note("%s begins", key)
	go func() {
		ctx, cancel := context.WithTimeout(life, call.timeout)
		defer cancel()
		err := status.Error(codes.Unavailable, "the process is gone")
		defer func() {
			s.pending.add(&event{key: "answer of " + key, kind: kindClient, do: func() { c.ended(call, key, err) }})
		}()
		if ctx.Err() == nil {
			err = call.do(ctx, m, p)
		}
	}()
}

func (call *csiCall) kind() string {
	kind := call.name
	for i, r := range kind {
		if r == ' ' {
			return kind[:i]
		}
	}
	return kind
}

// ended takes in an answer.
func (c *clients) ended(call *csiCall, key string, err error) {
	c.open--
	if call.claim != nil {
		call.claim.open--
	}
	code := status.Code(err)
	c.s.note("%s ends: %s %v", key, code, err)
	c.s.counts["answer "+code.String()]++
	c.s.checks.answered(call, err)
	if call.done != nil {
		call.done(err)
	}
	if c.late = append(c.late, call); len(c.late) > 12 {
		c.late = c.late[1:]
	}
}

// capability is what the claim is used as.
func (c *claim) capability() *csi.VolumeCapability {
	v := &csi.VolumeCapability{AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER}}
	if c.fsType == "" {
		v.AccessType = &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}
	} else {
		v.AccessType = &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{FsType: c.fsType}}
	}
	return v
}
