package sim

import (
	"context"
	"errors"
	"fmt"

	spec "github.com/csi-addons/spec/lib/go/replication"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/fsm"
)

// roles are what the orchestrators of both sites want of a claim that is replicated between them. Each keeps an object
// of its own, and asks for what that says again and again, in the order of the published controllers.
type roles struct {
	claim   *claim
	group   *volumeGroup // that has the claim and others; nil: the claim's volume has its roles alone
	objects map[fsm.Site]*roleObject
	primary fsm.Site // that is to be primary in the end; empty: not chosen
}

// roleObject is one site's VolumeReplication, or VolumeGroupReplication.
type roleObject struct {
	site    fsm.Site
	want    wantedRole
	enabled bool // by its last answer
	force   bool // the next Promote is with force: the last one was FAILED_PRECONDITION
	demoted bool // so Resync is next
}

type wantedRole int

const (
	wantNothing wantedRole = iota // the object was deleted
	wantPrimary
	wantSecondary
	wantResync
)

func newRoles(c *claim) *roles {
	r := &roles{claim: c, objects: map[fsm.Site]*roleObject{}}
	for _, site := range c.s.siteNames() {
		r.objects[site] = &roleObject{site: site}
	}
	r.objects[siteA].want = wantPrimary
	return r
}

func (r *roles) other(site fsm.Site) fsm.Site {
	if site == siteA {
		return siteB
	}
	return siteA
}

// decide changes what is wanted: a planned move, a failover that one site's orchestrator hears of only, an old object
// that somebody applies again, or the end of it.
func (r *roles) decide() {
	tape := r.claim.s.tape
	site := r.claim.s.siteNames()[tape.pick(2)]
	here, there := r.objects[site], r.objects[r.other(site)]
	switch tape.pick(8) {
	case 0, 1:
		here.want, there.want = wantPrimary, wantSecondary
	case 2:
		here.want = wantPrimary // the other one does not know
	case 3:
		here.want = wantSecondary
	case 4:
		here.want = wantResync
	case 5:
		if tape.oneIn(3) {
			here.want = wantNothing
		}
	default:
		here.want, there.want = wantPrimary, wantResync
	}
}

// nextCall is what one of the orchestrators asks for next.
func (r *roles) nextCall() *csiCall {
	s := r.claim.s
	if call, first := r.group.nextCall(r); first {
		return call
	}
	if s.tape.oneIn(6) {
		r.decide()
	}
	o := r.objects[s.siteNames()[s.tape.pick(2)]]
	switch {
	case o.want == wantNothing:
		return r.disable(o.site)
	case !o.enabled || s.tape.oneIn(12):
		return r.enable(o.site)
	case o.want == wantPrimary && s.tape.oneIn(4):
		return r.info(o.site)
	case o.want == wantPrimary:
		return r.promote(o.site, o.force)
	case o.want == wantSecondary && !o.demoted:
		return r.demote(o.site)
	case o.want == wantSecondary:
		return r.resync(o.site, s.tape.pick(2) == 1)
	}
	return r.resync(o.site, true)
}

func (r *roles) source() *spec.ReplicationSource {
	if r.group != nil {
		return r.group.source()
	}
	return &spec.ReplicationSource{Type: &spec.ReplicationSource_Volume{Volume: &spec.ReplicationSource_VolumeSource{VolumeId: r.claim.id}}}
}

// call is one of the calls at a site's endpoint, which is never another's.
func (r *roles) call(name string, site fsm.Site, do func(ctx context.Context, m *member) error, done func(error)) *csiCall {
	call := r.claim.controllerCall(name, do, done).through(site)
	call.name += " at " + string(site)
	call.fixed = true
	return call
}

func (r *roles) enable(site fsm.Site) *csiCall {
	req := &spec.EnableVolumeReplicationRequest{ReplicationSource: r.source(), Parameters: map[string]string{"peerSite": string(r.other(site))}}
	return r.call("enable", site, func(ctx context.Context, m *member) error {
		_, err := m.replication.EnableVolumeReplication(ctx, req)
		return err
	}, func(err error) { r.objects[site].enabled = err == nil })
}

func (r *roles) disable(site fsm.Site) *csiCall {
	req := &spec.DisableVolumeReplicationRequest{ReplicationSource: r.source()}
	return r.call("disable", site, func(ctx context.Context, m *member) error {
		_, err := m.replication.DisableVolumeReplication(ctx, req)
		return err
	}, func(err error) {
		if err == nil {
			r.objects[site].enabled = false
		}
	})
}

// promote is repeated with force where its answer is FAILED_PRECONDITION, as the published controller does.
func (r *roles) promote(site fsm.Site, force bool) *csiCall {
	req := &spec.PromoteVolumeRequest{ReplicationSource: r.source(), Force: force}
	return r.call(forced("promote", force), site, func(ctx context.Context, m *member) error {
		_, err := m.replication.PromoteVolume(ctx, req)
		return err
	}, func(err error) {
		r.objects[site].force = status.Code(err) == codes.FailedPrecondition
		if err == nil {
			r.claim.s.counts["promotions"]++
		}
		if err == nil && r.group != nil {
			r.claim.s.counts["promotions of groups"]++
		}
	})
}

func forced(name string, force bool) string {
	if force {
		return name + "-by-force"
	}
	return name
}

func (r *roles) demote(site fsm.Site) *csiCall {
	req := &spec.DemoteVolumeRequest{ReplicationSource: r.source()}
	return r.call("demote", site, func(ctx context.Context, m *member) error {
		_, err := m.replication.DemoteVolume(ctx, req)
		return err
	}, func(err error) {
		r.objects[site].demoted = err == nil
		if err == nil {
			r.claim.s.counts["demotions"]++
		}
	})
}

var errNotReady = errors.New("it is not resynchronised yet")

func (r *roles) resync(site fsm.Site, force bool) *csiCall { return r.resyncKeeping(site, force, true) }

func (r *roles) resyncKeeping(site fsm.Site, force, keep bool) *csiCall {
	req := &spec.ResyncVolumeRequest{ReplicationSource: r.source(), Force: force}
	if !keep {
		req.Parameters = map[string]string{"keep": "false"}
	}
	return r.call(forced("resync", force), site, func(ctx context.Context, m *member) error {
		resp, err := m.replication.ResyncVolume(ctx, req)
		if err == nil && !resp.GetReady() {
			return errNotReady
		}
		return err
	}, func(err error) {
		if err == nil {
			r.objects[site].demoted = false
			r.claim.s.counts["resynchronisations"]++
		}
	})
}

func (r *roles) info(site fsm.Site) *csiCall {
	req := &spec.GetVolumeReplicationInfoRequest{ReplicationSource: r.source()}
	return r.call("info", site, func(ctx context.Context, m *member) error {
		resp, err := m.replication.GetVolumeReplicationInfo(ctx, req)
		if err == nil && len(resp.GetStatusMessage()) > 128 {
			return fmt.Errorf("a message of %d bytes", len(resp.GetStatusMessage()))
		}
		return err
	}, nil)
}

// forget: the volume is gone, and another one of the name is in no relation.
func (r *roles) forget() {
	if r == nil {
		return
	}
	for _, o := range r.objects {
		o.enabled, o.force, o.demoted = false, false, false
	}
}
