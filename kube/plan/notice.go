package plan

import (
	"fmt"
	"strings"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// Notice is what users are told of an object, in one sentence that says what to do. Its reason and its subject make it one: the same
// with another sentence takes its place.
type Notice struct {
	Reason string
	Note   string
	// Command shows more, where the note is in the log's words, which name none; it is whole also where the note is cut.
	Command string
	Good    bool // nothing is wrong any more
	// Entry is the index of the log that it stands on; 0: none. Kubernetes makes one Event of all that differ by their sentences alone,
	// for some minutes, and shows the first: what stands on another entry is another Event.
	Entry uint64
}

// The reasons of notices.
const (
	ReasonNodeAway      = "NodeAway"
	ReasonNotUpToDate   = "ReplicaNotUpToDate"
	ReasonSuspended     = "IOSuspended"
	ReasonAbnormal      = "VolumeAbnormal"
	ReasonPoolFull      = "PoolFull"
	ReasonNoCapacity    = "NoCapacity"
	ReasonNoQuorum      = "QuorumLost"
	ReasonDrainBlocked  = "DrainBlocked"
	ReasonAffinity      = "AffinityWaits"
	ReasonNoFailover    = "FailoverRefused"
	ReasonFailoverWaits = "FailoverWaits"
	ReasonOutOfService  = "OutOfService"
	ReasonReturned      = "ReturnedToService"
)

// fullPercent is from where on a pool counts as full: what is left is less than most volumes.
const fullPercent = 95

// OfVolume is what the users of a volume are told; none where nothing is wrong.
func OfVolume(v *adminpb.Volume, nodes map[string]*adminpb.Node) (all []Notice) {
	if v.GetPhase() != "ready" {
		return nil
	}
	for _, r := range v.GetReplicas() {
		n := nodes[r.GetNode()]
		switch {
		case r.GetState() != "present":
		case n != nil && n.GetState() == "unreachable":
			all = append(all, Notice{Reason: ReasonNodeAway, Note: fmt.Sprintf(
				"Node %s, which has a replica of this volume, cannot be reached: start it; if it is gone for good, run `kubectl holdfast nodes lost %s`", r.GetNode(), r.GetNode())})
		case r.GetSuspended():
			all = append(all, Notice{Reason: ReasonSuspended, Note: fmt.Sprintf(
				"I/O of this volume is suspended on node %s until the log decides: `kubectl holdfast volumes %s` says what it waits for", r.GetNode(), v.GetName())})
		case v.GetReplication() != nil && !r.GetUpToDate():
			all = append(all, Notice{Reason: ReasonNotUpToDate, Note: notUpToDate(v, r)})
		}
	}
	if len(all) == 0 && v.GetAbnormal() {
		all = append(all, Notice{Reason: ReasonAbnormal, Note: fmt.Sprintf("%s: run `%s` to see what to do", v.GetCondition(), askAbout(v))})
	}
	return all
}

// askAbout is the command that says what to do about a volume: of its claim, by which users know it, where the log has that.
func askAbout(v *adminpb.Volume) string {
	if claim := v.GetClaim(); claim.GetName() != "" {
		return fmt.Sprintf("kubectl holdfast why -n %s pvc/%s", claim.GetNamespace(), claim.GetName())
	}
	return "kubectl holdfast volumes " + v.GetName()
}

func notUpToDate(v *adminpb.Volume, r *adminpb.Replica) string {
	good := "the other"
	for _, o := range v.GetReplicas() {
		if o.GetUpToDate() {
			good = "node " + o.GetNode()
		}
	}
	if r.GetConnection() == "sync_target" {
		// No number that changes: Kubernetes shows the first of a series for some minutes.
		return fmt.Sprintf("The replica on node %s is being synchronised: do not stop %s until it is up to date; `kubectl holdfast volumes replicas %s` says how far it is", r.GetNode(), good, v.GetName())
	}
	return fmt.Sprintf("The replica on node %s is not up to date (%s): do not stop %s, and see `kubectl holdfast volumes replicas %s`", r.GetNode(), orUnknown(r.GetDisk()), good, v.GetName())
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// OfNode is what is told of a node.
func OfNode(n *adminpb.Node) (all []Notice) {
	if n.GetState() == "unreachable" {
		all = append(all, Notice{Reason: ReasonNodeAway, Note: fmt.Sprintf(
			"No controller has heard of this node's host for the node timeout: see its holdfast-node pod; if it is gone for good, run `kubectl holdfast nodes lost %s`", n.GetId())})
	}
	for _, p := range n.GetPools() {
		switch {
		case p.GetMeasured() && p.GetCondition() != "":
			all = append(all, Notice{Reason: ReasonPoolFull, Note: fmt.Sprintf("Pool %s: %s; make it larger, or delete volumes or kept copies", p.GetId(), p.GetCondition())})
		case room(p) <= admitted(p)/100*(100-fullPercent):
			all = append(all, Notice{Reason: ReasonPoolFull, Note: fmt.Sprintf(
				"Pool %s has %s left of %s: make it larger, or delete volumes or kept copies", p.GetId(), size(room(p)), size(admitted(p)))})
		}
	}
	return all
}

// admitted is what volumes may be promised in a pool.
func admitted(p *adminpb.Pool) int64 {
	percent := int64(max(p.GetOvercommitPercent(), 1))
	return p.GetCapacityBytes()/100*percent + p.GetCapacityBytes()%100*percent/100
}

func room(p *adminpb.Pool) int64 {
	left := max(admitted(p)-p.GetReservedBytes(), 0)
	if p.GetMeasured() {
		left = min(left, max(p.GetFreeBytes()-p.GetMinFreeBytes(), 0))
	}
	return left
}

// NoCapacity is what the claim of a volume of the size, with so many replicas on different nodes, is told where no pools have room for it.
// It looks at sizes only: that a claim waits for other reasons is said by the provisioner.
func NoCapacity(bytes int64, replicas int, nodes []*adminpb.Node) (Notice, bool) {
	most, withRoom := int64(0), 0
	for _, n := range nodes {
		best := int64(0)
		for _, p := range n.GetPools() {
			best = max(best, room(p))
		}
		if n.GetState() != "reachable" || n.GetCordoned() {
			continue
		}
		most = max(most, best)
		if best >= bytes {
			withRoom++
		}
	}
	if withRoom >= replicas {
		return Notice{}, false
	}
	return Notice{Reason: ReasonNoCapacity, Note: fmt.Sprintf(
		"%d of the %d nodes that this volume needs have a pool with %s left (the largest has %s): add a node or capacity, or delete volumes", withRoom, replicas, size(bytes), size(most))}, true
}

// NoQuorum is what is told of the controllers' pods; why is the error of who asked them.
func NoQuorum(why string) Notice {
	return Notice{Reason: ReasonNoQuorum, Note: "The controllers do not answer with a quorum, and nothing is provisioned, attached or failed over: " +
		"start those that are missing, which `kubectl holdfast doctor` names (" + answerIn(why) + ")"}
}

// answerIn is what the controllers answered, without what gRPC and who asked put before it.
func answerIn(why string) string {
	if _, answer, found := strings.Cut(why, "rpc error: code = "); found {
		_, why, _ = strings.Cut(answer, " desc = ")
	}
	return why
}

func size(bytes int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB"}
	value, unit := float64(bytes), 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.4g %s", value, units[unit])
}

// maxNote bounds a sentence: the API server refuses an Event's note of more than 1,024 bytes.
const maxNote = 1000

// FailoverWaits says what the failover of a node waits for.
func FailoverWaits(node, why string) Notice {
	return Notice{Reason: ReasonFailoverWaits, Note: "Out of service: " + why, Command: "kubectl holdfast nodes out-of-service " + node}
}

// Bounded is a notice as it is said: with its command, and no longer than the API server takes.
func (n Notice) Bounded() Notice {
	end := ""
	if n.Command != "" {
		end = "; `" + n.Command + "` shows more"
	}
	if len(n.Note)+len(end) > maxNote {
		cut := []rune(n.Note)
		n.Note = string(cut[:min(len(cut), (maxNote-len(end))/4)]) + "…"
	}
	n.Note += end
	return n
}

// Replicas is how many replicas a class asks for; one that names two sites asks for one at each, and may leave the number out.
func Replicas(parameters map[string]string) int {
	if parameters["replicas"] == "2" || parameters["sites"] != "" {
		return 2
	}
	return 1
}
