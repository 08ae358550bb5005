package why

import (
	"fmt"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
)

// record tells what the log has of the volume.
func (e *explanation) record(c *Claim, about string) {
	handle := c.Volume.Spec.CSI.VolumeHandle
	switch {
	case e.Trouble != "":
		return
	case c.Record == nil:
		e.add("volume", about, Broken, "kubectl holdfast history "+handle, "the log has no volume %s: it was deleted, or belongs to another cluster", handle)
	case c.Record.GetPhase() == "failed":
		e.add("volume", about, Broken, "kubectl holdfast history "+handle, "the volume failed: %s", c.Record.GetReason())
	case c.Record.GetPhase() != "ready":
		e.add("volume", about, Waiting, "", "the volume is %s%s", c.Record.GetPhase(), operations(c.Operations))
	case c.Record.GetAbnormal():
		e.add("volume", about, Broken, "kubectl holdfast volumes "+handle, "%s%s", c.Record.GetCondition(), e.awayHosts(c.Record))
	default:
		e.add("volume", about, Done, "", "ready%s%s", replicas(c.Record), operations(c.Operations))
	}
}

// awayHosts names the hosts of its replicas that nobody can reach.
func (e *explanation) awayHosts(v *adminpb.Volume) string {
	var away []string
	for _, r := range v.GetReplicas() {
		if host, ok := e.Hosts[r.GetNode()]; ok && host.Record.GetState() != "reachable" {
			away = append(away, fmt.Sprintf("%s is %s", r.GetNode(), orUnknown(host.Record.GetState())))
		}
	}
	if len(away) == 0 {
		return ""
	}
	return " (" + strings.Join(away, ", ") + ")"
}

func orUnknown(state string) string {
	if state == "" {
		return "not known to the log"
	}
	return state
}

func replicas(v *adminpb.Volume) string {
	var on []string
	for _, r := range v.GetReplicas() {
		on = append(on, r.GetNode())
	}
	return " on " + strings.Join(on, " and ")
}

// operations names the work of hosts that failed at least once.
func operations(all []*adminpb.Operation) string {
	for _, op := range all {
		if op.GetLastError() != "" {
			return fmt.Sprintf("; %s is at %s after %d attempts: %s", op.GetId(), op.GetStep(), op.GetAttempts(), op.GetLastError())
		}
	}
	return ""
}

// attachment tells whether the volume is attached to the pod's node, and who has it if not.
func (e *explanation) attachment(c *Claim, about, node string) {
	host, known := e.Hosts[node]
	if known && !host.Driver {
		e.add("driver", node, Broken, "kubectl get pods -A -o wide --field-selector spec.nodeName="+node, "kubelet of %s does not know %s: the node pod does not run there or could not register", node, driver)
		return
	}
	own, others := split(c.Attachments, node)
	switch {
	case own != nil && own.Status.Attached:
		e.add("attached", about, Done, "", "attached to %s", node)
	case own != nil && own.Status.AttachError != nil:
		e.add("attached", about, Broken, e.attachRemedy(others), "attaching to %s fails: %s%s", node, own.Status.AttachError.Message, e.heldBy(others))
	case len(others) > 0:
		e.add("attached", about, Waiting, e.attachRemedy(others), "it is not attached to %s%s", node, e.heldBy(others))
	default:
		e.add("attached", about, Waiting, "", "it is not attached to %s yet%s", node, e.lastWarning(e.Events))
	}
}

func split(all []storagev1.VolumeAttachment, node string) (own *storagev1.VolumeAttachment, others []string) {
	for i := range all {
		if all[i].Spec.NodeName == node {
			own = &all[i]
		} else {
			others = append(others, all[i].Spec.NodeName)
		}
	}
	return own, others
}

func (e *explanation) heldBy(nodes []string) string {
	if len(nodes) == 0 {
		return ""
	}
	var held []string
	for _, node := range nodes {
		text := node
		if host := e.Hosts[node]; host.Record.GetState() != "" && host.Record.GetState() != "reachable" {
			text += ", which is " + host.Record.GetState()
		}
		held = append(held, text)
	}
	return "; it is still attached to " + strings.Join(held, " and ")
}

// attachRemedy says how a volume leaves a node that is away: nothing else proves that it does not write.
func (e *explanation) attachRemedy(nodes []string) string {
	for _, node := range nodes {
		if state := e.Hosts[node].Record.GetState(); state != "" && state != "reachable" {
			return "if " + node + " is certainly off: kubectl taint nodes " + node + " node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
		}
	}
	return ""
}
