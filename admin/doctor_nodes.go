package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
)

// poolFull is the used share of a pool, in percent, from which it is as good as full: a thin pool takes nothing new then.
const poolFull = 95

func nodeSubject(n *adminpb.Node) string { return "host " + n.GetId() }

func checkNodes(p *patient) (out []*adminpb.Diagnosis) {
	if len(p.nodes) == 0 {
		return one(diagnose(SeverityWarn, "cluster", "start `holdfast node` on a storage host", "no storage host is registered"))
	}
	for _, n := range p.nodes {
		out = append(out, nodeDiagnoses(n)...)
	}
	return out
}

func nodeDiagnoses(n *adminpb.Node) (out []*adminpb.Diagnosis) {
	id, subject := n.GetId(), nodeSubject(n)
	switch n.GetState() {
	case fsm.NodeLost.String():
		return one(fine(subject, "it is recorded as lost"))
	case fsm.NodeReachable.String():
		out = append(out, fine(subject, "a controller has its session"))
	default:
		out = append(out, diagnose(SeverityError, subject, "start its node process; if it is gone for good, run `holdfast nodes lost "+id+"`", "it is unreachable: no controller has its session"))
	}
	if !n.GetAdopted() {
		out = append(out, diagnose(SeverityWarn, subject, "run `holdfast nodes adopt "+id+"`", "it is in adoption mode, and changes nothing"))
	}
	if n.GetFence() != "" {
		out = append(out, diagnose(SeverityWarn, subject, "run `holdfast nodes fences` and `holdfast nodes out-of-service "+id+"`, and `holdfast nodes unfence` when it may serve again", "it is fenced: %s", n.GetFence()))
	}
	if n.GetCordoned() {
		out = append(out, diagnose(SeverityWarn, subject, "run `holdfast nodes undrain "+id+"` when it may take volumes again", "it is cordoned: it gets no new volumes"))
	}
	if n.GetNoNewReplicas() {
		out = append(out, diagnose(SeverityWarn, subject, "see its log for what keeps DRBD from working, or run `holdfast doctor --host` there", "it registered without replication, and gets no new replicas of replicated volumes"))
	}
	return out
}

// checkNodeHosts are what storage hosts found of themselves.
func checkNodeHosts(p *patient) (out []*adminpb.Diagnosis) {
	for _, n := range p.nodes {
		switch n.GetState() {
		case fsm.NodeLost.String():
		case fsm.NodeReachable.String():
			out = append(out, hostDiagnoses(nodeSubject(n), p.onNodes, n.GetId())...)
		default:
			out = append(out, diagnose(SeverityUnknown, nodeSubject(n), "run `holdfast doctor --host` there", "its host is not known: nobody has its session"))
		}
	}
	return out
}

// checkNodeReach looks for controllers that a host does not reach: when its session ends, it has fewer to go to, and so has DRBD's
// handler there, which asks through it.
func checkNodeReach(p *patient) (out []*adminpb.Diagnosis) {
	names := map[string]string{} // by address
	for _, m := range p.members {
		if m.APIAddress != "" {
			names[m.APIAddress] = memberName(m)
		}
	}
	for _, n := range p.nodes {
		answer, seen := p.onNodes[n.GetId()], map[string]bool{}
		for _, r := range slices.Concat(answer.Controllers, answer.Reached) {
			if !seen[r.Address] {
				out = append(out, nodeReach(n.GetId(), names[r.Address], r))
			}
			seen[r.Address] = true
		}
	}
	return out
}

// nodeReach is about one host and one controller, whose name may not be known.
func nodeReach(node, name string, r Reached) *adminpb.Diagnosis {
	pair, controller := "pair "+node+"/"+cmp.Or(name, r.Address), strings.TrimSpace("the controller "+name)
	if r.Err == "" {
		return fine(pair, "host %s reaches %s at %s", node, controller, r.Address)
	}
	remedy := "see whether that controller runs, and whether a firewall is between the two"
	if name != "" {
		remedy = fmt.Sprintf("open TCP %s to the host of %s; if hosts are to use another address of %s, start it with --api-advertise", r.Address, node, name)
	}
	return diagnose(SeverityWarn, pair, remedy, "host %s does not reach %s at %s: %s", node, controller, r.Address, r.Err)
}

func checkPools(p *patient) (out []*adminpb.Diagnosis) {
	for _, n := range p.nodes {
		if n.GetState() == fsm.NodeLost.String() {
			continue
		}
		for _, pool := range n.GetPools() {
			out = append(out, poolDiagnoses(n, pool)...)
		}
	}
	return out
}

func poolDiagnoses(n *adminpb.Node, pool *adminpb.Pool) (out []*adminpb.Diagnosis) {
	subject := fmt.Sprintf("pool %s on %s", pool.GetId(), n.GetId())
	const enlarge = "make it larger, or remove volumes and snapshots"
	capacity := pool.GetCapacityBytes()
	used := 100 - pool.GetFreeBytes()*100/max(1, capacity)
	switch {
	case !pool.GetMeasured():
		out = append(out, diagnose(SeverityUnknown, subject, "see why its host does not answer", "how full it is is not known: no measurement came from its host"))
	case strings.HasPrefix(pool.GetCondition(), "absent"):
		out = append(out, diagnose(SeverityError, subject, "mount it, or activate it, on "+n.GetId(), "it is %s", pool.GetCondition()))
	case capacity > 0 && used >= poolFull:
		out = append(out, diagnose(SeverityError, subject, enlarge, "it is %d %% full", used))
	case capacity > 0 && used >= poolNearlyFull:
		out = append(out, diagnose(SeverityWarn, subject, enlarge, "it is %d %% full", used))
	default:
		out = append(out, fine(subject, "%s of %s are free", formatSize(pool.GetFreeBytes()), formatSize(capacity)))
	}
	if capacity > 0 && pool.GetReservedBytes() > capacity {
		out = append(out, diagnose(SeverityWarn, subject, enlarge+", or watch how full it gets", "it is over-committed: volumes and snapshots may grow to %s, %d %% of what it has", formatSize(pool.GetReservedBytes()), pool.GetReservedBytes()/max(1, capacity/100)))
	}
	return out
}
