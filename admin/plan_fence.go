package admin

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// nobodyFenced stands for the hosts of a plan where no host has an address in the CIDRs.
const nobodyFenced = "none"

// ofCIDRs tells whether the verb's plan is about CIDRs: the hosts that it shows follow from them.
func ofCIDRs(verb string) bool { return verb == "fence" || verb == "unfence" }

// fenceOwner is who the operator acts for: a site that is named, else the operators.
func (t *planTarget) fenceOwner() fsm.FenceOwner {
	return fsm.FenceOwnerOf("admin/plan", t.req.GetSite())
}

// targetFenced finds the hosts that the plan is about, which must be those that the request names (S60).
func (t *planTarget) targetFenced() ([]fsm.FencedHost, *fsm.Rejection) {
	hosts, rej := t.state.HostsToFence(t.req.GetCidrs(), t.fenceOwner(), t.req.GetVerb() == "fence")
	if rej != nil {
		return nil, rej
	}
	found := make([]string, 0, len(hosts))
	for _, h := range hosts {
		found = append(found, h.String())
	}
	t.host = fsm.HostID(strings.Join(found, ","))
	if len(found) == 0 {
		t.host = nobodyFenced
	}
	if named := t.req.GetHostId(); named != "" && named != string(t.host) {
		return nil, fsm.Reject(fsm.StaleEpoch, "the CIDRs have the hosts %s now, not %s: look at the plan again", t.host, named)
	}
	return hosts, nil
}

// planFence fences the hosts that have an address in the CIDRs.
func (p *planner) planFence() error {
	hosts, rej := p.targetFenced()
	if rej != nil {
		return rej
	}
	var ending []step
	for _, h := range hosts {
		for v := range p.state.VolumesOn(h.Node) {
			if isPublished(v, h.Node) {
				ending = append(ending, step{action: "end", state: stepFollows, volume: v, node: h.Node, detail: "its publication here ends"})
			}
		}
	}
	cmd := &fsmpb.FenceNetwork{Cidrs: p.req.GetCidrs()}
	for _, h := range hosts {
		cmd.ExpectHosts = append(cmd.ExpectHosts, &fsmpb.FencedHost{NodeId: string(h.Node), HostId: string(h.Host)})
	}
	if p.stands() {
		p.add(step{action: "fence", state: stepDone, detail: "fenced: " + string(p.host)})
	} else if !p.addCommand(step{action: "fence", detail: "these hosts are fenced: " + string(p.host)},
		&fsmpb.Command{Site: p.req.GetSite(), Body: &fsmpb.Command_FenceNetwork{FenceNetwork: cmd}}) {
		return nil
	}
	for _, t := range ending {
		p.add(t)
	}
	if waitsFor := p.fenceWaitsFor(); waitsFor != "" {
		p.add(step{action: "sever", state: stepWaiting, detail: waitsFor})
	}
	return nil
}

// stands tells whether the owner fences all of the CIDRs already.
func (t *planTarget) stands() bool {
	cidrs, _ := fsm.NormalizeCIDRs(t.req.GetCidrs())
	for _, cidr := range cidrs {
		if _, ok := t.state.Fence(cidr, t.fenceOwner()); !ok {
			return false
		}
	}
	return true
}

func (t *planTarget) fenceWaitsFor() string {
	cidrs, _ := fsm.NormalizeCIDRs(t.req.GetCidrs())
	_, waitsFor, _ := t.state.FenceHolds(cidrs, t.fenceOwner())
	return waitsFor
}

// planUnfence ends what the owner fenced. Where that has ended, the hosts that the request names are nobody's business any more:
// repeated, it is done.
func (p *planner) planUnfence() error {
	cidrs, rej := fsm.NormalizeCIDRs(p.req.GetCidrs())
	if rej == nil && !p.fencesAny(cidrs) {
		p.host = fsm.HostID(cmp.Or(p.req.GetHostId(), nobodyFenced))
		p.add(step{action: "unfence", state: stepDone, detail: string(p.fenceOwner()) + " fences none of them"})
		return nil
	}
	hosts, rej := p.targetFenced()
	if rej != nil {
		return rej
	}
	if !p.addCommand(step{action: "unfence", detail: "the fence of " + strings.Join(cidrs, " ") + " ends"},
		&fsmpb.Command{Site: p.req.GetSite(), Body: &fsmpb.Command_UnfenceNetwork{UnfenceNetwork: &fsmpb.UnfenceNetwork{Cidrs: cidrs}}}) {
		return nil
	}
	for _, h := range hosts {
		if n, ok := p.state.Node(h.Node); ok && n.Host == h.Host {
			p.add(step{action: "serve", state: stepFollows, node: n.ID, detail: fenceText(p.state, n)})
		}
	}
	return nil
}

func (t *planTarget) fencesAny(cidrs []string) bool {
	for _, cidr := range cidrs {
		if _, ok := t.state.Fence(cidr, t.fenceOwner()); ok {
			return true
		}
	}
	return false
}

// fenceText says how a host is fenced; empty where it is not.
func fenceText(st *fsm.State, n *fsm.Node) string {
	switch {
	case !n.IsFenced():
		return ""
	case n.Fence.Session != 0:
		return "no fence binds it: it serves again when it ended what was revoked"
	case n.Fence.Lifted != 0:
		return "no fence binds it: it serves again with a session that begins from now on"
	}
	var by []string
	if n.OutOfService != 0 {
		by = append(by, fmt.Sprintf("its being out of service since index %d", n.OutOfService))
	}
	for f := range st.FencesOf(n) {
		by = append(by, fmt.Sprintf("%s (%s)", f.CIDR, f.Owner))
	}
	return "fenced by " + strings.Join(by, ", ")
}

// fenceViews are all fences.
func fenceViews(st *fsm.State) (all []*adminpb.Fence) {
	for f := range st.Fences() {
		holds, waitsFor, _ := st.FenceHolds([]string{f.CIDR}, f.Owner)
		all = append(all, &adminpb.Fence{
			Cidr: f.CIDR, Owner: string(f.Owner), Since: f.Since, Hosts: mapSlice(f.Bound, fsm.FencedHost.String), Holds: holds, WaitsFor: waitsFor,
		})
	}
	return all
}
