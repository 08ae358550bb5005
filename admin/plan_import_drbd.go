package admin

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// importDRBD is the verb that makes a volume of the replicas of a DRBD resource of others.
const importDRBD = "import-drbd"

// maxPairDifference is by how many bytes the devices of a pair may differ: a pool may have rounded one of them up. What a
// host has beyond that it does not take for rounding.
const maxPairDifference = 64 << 20

// importedReplica is a replica that a request names, and what its host has.
type importedReplica struct {
	node       fsm.NodeID
	device     string // the name of its logical volume
	candidates []*fsmpb.ImportCandidate
	found      *fsmpb.ImportCandidate
	host       *fsm.Node
}

// checkReplicas refuses a request of import-drbd that is none.
func checkReplicas(req *adminpb.PlanRequest) error {
	if n := len(req.GetReplicas()); n < 1 || n > fsm.MaxReplicas || req.GetVolume() == "" {
		return status.Errorf(codes.InvalidArgument, "%s: name the volume that it becomes, and one replica or two of the DRBD resource, not %d", importDRBD, n)
	}
	for _, text := range req.GetReplicas() {
		if node, device, _ := strings.Cut(text, ":"); node == "" || device == "" {
			return status.Errorf(codes.InvalidArgument, "%s: %q is no replica: name it as NODE:LV", importDRBD, text)
		}
	}
	return nil
}

// askReplicas asks the hosts of the replicas that are imported; nil for other verbs.
func (s *Server) askReplicas(ctx context.Context, req *adminpb.PlanRequest) ([]importedReplica, error) {
	if req.GetVerb() != importDRBD {
		return nil, nil
	}
	all := make([]importedReplica, len(req.GetReplicas()))
	group, ctx := errgroup.WithContext(ctx)
	for i, text := range req.GetReplicas() {
		group.Go(func() (err error) {
			node, device, _ := strings.Cut(text, ":")
			all[i] = importedReplica{node: fsm.NodeID(node), device: volumeNameOf(device)}
			all[i].candidates, err = s.Hosts.Candidates(ctx, all[i].node)
			return err
		})
	}
	return all, group.Wait()
}

// findReplicaHosts binds the plan to the hosts of the replicas.
func (p *planner) findReplicaHosts() error {
	var hosts []string
	for i := range p.replicas {
		r := &p.replicas[i]
		n, ok := p.state.Node(r.node)
		if !ok {
			return fsm.Reject(fsm.NotFound, "no node is registered as %q", r.node)
		}
		r.host = n
		hosts = append(hosts, string(n.Host))
	}
	p.host = fsm.HostID(strings.Join(hosts, ","))
	if asked := p.req.GetHostId(); asked != "" && asked != string(p.host) {
		return fsm.Reject(fsm.StaleEpoch, "the replicas are on the hosts %s, not %s: look at the plan again", p.host, asked)
	}
	return nil
}

// planImportDRBD makes a volume of the named replicas: the log says so first, then their hosts take them in.
func (p *planner) planImportDRBD() error {
	if v := p.importedReplicas(); v != nil {
		return p.addImportedReplicas(v)
	}
	var devices []string
	for i := range p.replicas {
		r := &p.replicas[i]
		c, err := findCandidate(r.node, "", r.device, r.candidates)
		if err != nil {
			return err
		}
		r.found, devices = c, append(devices, c.GetDeviceId())
	}
	p.device = strings.Join(devices, ",")
	if asked := p.req.GetDeviceId(); asked != "" && asked != p.device {
		return fsm.Reject(fsm.StaleEpoch, "the logical volumes are %s, not %s: look at the plan again", p.device, asked)
	}
	view := &fsm.Volume{Name: p.req.GetVolume()}
	if p.addReplicas(view) {
		p.addImportDRBD(view)
	}
	return nil
}

// addReplicas shows each replica, with why it may not be imported. It tells whether all may.
func (p *planner) addReplicas(view *fsm.Volume) bool {
	why := make([]string, len(p.replicas))
	for i := range p.replicas {
		why[i] = p.refuseReplica(i)
	}
	if p.isPair() && !slices.ContainsFunc(why, func(w string) bool { return w != "" }) {
		why[1] = refusePair(p.replicas[0].found, p.replicas[1].found)
	}
	all := true
	for i := range p.replicas {
		t := step{action: "replica", state: stepFollows, volume: view, node: p.replicas[i].node, detail: describeReplica(p.replicas[i].found)}
		if why[i] != "" {
			t.state, t.detail, all = stepBlocked, t.detail+": "+why[i], false
		}
		p.add(t)
	}
	return all
}

func (p *planner) isPair() bool { return len(p.replicas) == 2 }

// addImportDRBD adds the command, and what follows from it.
func (p *planner) addImportDRBD(view *fsm.Volume) {
	c := p.importDRBDCommand()
	kind := "a plain volume of the device's size, which the filesystem grows into when it is staged"
	if p.isPair() {
		kind = "a replicated volume, both replicas up to date from the beginning"
	}
	detail := fmt.Sprintf("%s, %s: generation %016X with %s of content", kind, formatSize(c.GetSizeBytes()), c.GetReplicas()[0].GetCurrentUuid(), formatSize(c.GetReplicas()[0].GetContentBytes()))
	if !p.addCommand(step{action: "import", volume: view, node: p.replicas[0].node, detail: detail}, &fsmpb.Command{Body: &fsmpb.Command_ImportDrbd{ImportDrbd: c}}) {
		return
	}
	for _, t := range []step{
		{action: "rename", detail: "each host looks at the metadata once more, gives its logical volume the volume's id as its name, and tags; what is on it is neither copied nor written to"},
		{action: "replace-metadata", detail: "only when every host has its own: each keeps a dump of DRBD's metadata in its data folder, in drbd-metadata, and overwrites what is behind the content; nothing of the content is copied or synchronised"},
		{action: "not-known", detail: p.unknownOfReplicas()},
	} {
		t.state, t.volume, t.node = stepFollows, view, p.replicas[0].node
		p.add(t)
	}
}

func (p *planner) unknownOfReplicas() string {
	rest := "whether anything but DRBD wrote to a logical volume, which nothing may have: only parts of the content are read, its beginning and its end among them, and not all of it is compared; any other replica of the DRBD resource, one without a disk too, stays as it is and must not be used again. Stop what would bring the resource up, such as linstor-satellite; delete it there only after the import, as LINSTOR would remove the logical volumes before"
	if p.isPair() {
		return rest
	}
	return "whether its peer went on without it, which its own metadata cannot tell; " + rest
}

// refuseReplica is why a replica may not be imported, with the remedy; empty: it may.
func (p *planner) refuseReplica(i int) string {
	c, peer := p.replicas[i].found, int32(0)
	if p.isPair() {
		peer = p.replicas[1-i].found.GetDrbd().GetDrbdNode()
	}
	switch {
	case c.GetRefusal() != "":
		return c.GetRefusal()
	case c.GetOpenCount() > 0 || len(c.GetMounts()) > 0:
		return "end what uses it, and `drbdadm down` the DRBD resource on both hosts"
	case !c.GetProbed():
		return "nothing is imported unread: " + c.GetDetail()
	case c.GetDrbd() == nil && c.GetDrbdDetail() != "":
		return "its metadata were not read: " + c.GetDrbdDetail()
	case c.GetDrbd() == nil:
		return "there are no metadata of DRBD at its end: `holdfast import lv` takes in a logical volume without"
	case p.isPair() && c.GetDrbdRefusal() != "":
		return c.GetDrbdRefusal()
	}
	for _, why := range []string{refuseContent(c, p.req.GetBlock()), fsm.DRBDUnfit(c.GetDrbd(), p.isPair(), peer), refuseUnread(c, p.req.GetBlock())} {
		if why != "" {
			return why
		}
	}
	return ""
}

// refuseUnread is why it cannot be told that the content is what lies before the metadata: those stay as they are where a
// filesystem is used without DRBD, and what is behind the content is overwritten.
func refuseUnread(c *fsmpb.ImportCandidate, block bool) string {
	content := c.GetDrbd().GetContentBytes()
	switch {
	case len(c.GetContentDigest()) == 0 || c.GetFsBytes() == 0 && !block:
		return "its content was not read: the host runs an older version, or one without tools for filesystems"
	case c.GetFsBytes() > content:
		return fmt.Sprintf("its filesystem has %d bytes, of which the DRBD resource had %d: it was made larger without DRBD, whose metadata say nothing of it any more: copy its files into a new volume", c.GetFsBytes(), content)
	}
	return ""
}

// refuseContent is why what is before the metadata may not be imported.
func refuseContent(c *fsmpb.ImportCandidate, block bool) string {
	if !block && !fsm.KnownFSType(c.GetFsType()) {
		return "its content is no ext4 or xfs: with --block it is imported for raw use, for ever"
	}
	for _, s := range c.GetSignatures() {
		switch {
		case s == "drbd" || s == c.GetFsType():
		case !block:
			return fmt.Sprintf("it holds %s beside an %s: with --block it is imported for raw use, for ever", s, c.GetFsType())
		case !slices.Contains(rawSignatures, s):
			return s + " says that it is a part of something else: take it out of that first"
		}
	}
	return ""
}

// refusePair is why two replicas that may be imported alone are no pair.
func refusePair(a, b *fsmpb.ImportCandidate) string {
	x, y := a.GetDrbd(), b.GetDrbd()
	size := min(a.GetReplicatedBytes(), b.GetReplicatedBytes())
	difference := max(a.GetReplicatedBytes(), b.GetReplicatedBytes()) - size
	switch {
	case x.GetFormat() != y.GetFormat():
		return "the other replica has metadata of another version of DRBD: they are not of one resource"
	case x.GetCurrentUuid() != y.GetCurrentUuid():
		return fmt.Sprintf("it is of the generation %016X, the other replica of %016X: they are of two resources, or one went on without the other: let them synchronise, then `drbdadm down` it on both hosts; or import the good replica alone", y.GetCurrentUuid(), x.GetCurrentUuid())
	case x.GetContentBytes() != y.GetContentBytes():
		return fmt.Sprintf("it has %d bytes of content, the other replica %d: connect them once", y.GetContentBytes(), x.GetContentBytes())
	case a.GetFsType() != b.GetFsType() || a.GetFsUuid() != b.GetFsUuid():
		return "it holds another filesystem than the other replica"
	case !bytes.Equal(a.GetContentDigest(), b.GetContentDigest()):
		return "its content is not the other replica's, though their metadata say so: one was written to without DRBD since, as by a mount of its logical volume: bring both up, `drbdadm invalidate` the one that is not the good one, and `drbdadm down` it on both hosts when it is copied; or import the good replica alone"
	case x.GetContentBytes() > size:
		return fmt.Sprintf("Holdfast's metadata would cut its content of %d bytes off at %d: extend both with `lvextend`, and run `drbdadm resize`, while they are the DRBD resource's", x.GetContentBytes(), size)
	case difference > maxPairDifference:
		return fmt.Sprintf("the two devices differ by %d bytes: extend the smaller one with `lvextend`, and run `drbdadm resize`, while they are the DRBD resource's", difference)
	}
	return ""
}

// describeReplica says what is known of a replica.
func describeReplica(c *fsmpb.ImportCandidate) string {
	text := describeCandidate(c)
	if m := c.GetDrbd(); m != nil {
		text += fmt.Sprintf(", metadata v%02d, generation %016X, %d bytes of content", m.GetFormat(), m.GetCurrentUuid(), m.GetContentBytes())
	}
	return text
}

func (p *planner) importDRBDCommand() *fsmpb.ImportDrbd {
	first := p.replicas[0].found
	c := &fsmpb.ImportDrbd{VolumeId: "hf-" + uuid.NewString(), Name: p.req.GetVolume(), SizeBytes: first.GetSizeBytes(), Block: p.req.GetBlock(), ContentDigest: first.GetContentDigest()}
	if p.isPair() {
		c.SizeBytes = min(first.GetReplicatedBytes(), p.replicas[1].found.GetReplicatedBytes())
	}
	if !c.GetBlock() {
		c.FsType, c.FsUuid = first.GetFsType(), first.GetFsUuid()
	}
	for i := range p.replicas {
		r, m := &p.replicas[i], p.replicas[i].found.GetDrbd()
		c.Replicas = append(c.Replicas, &fsmpb.DrbdReplica{
			NodeId: string(r.node), HostId: string(r.host.Host), PoolId: r.found.GetPoolId(), DeviceId: r.found.GetDeviceId(), DeviceName: r.found.GetDeviceName(),
			DeviceBytes: r.found.GetSizeBytes(), Format: m.GetFormat(), CurrentUuid: m.GetCurrentUuid(), ContentBytes: m.GetContentBytes(), DrbdNode: uint32(max(0, m.GetDrbdNode())),
		})
	}
	return c
}

// importedReplicas is the volume that was made of the named replicas by an earlier call.
func (p *planner) importedReplicas() *fsm.Volume {
	for v := range p.state.VolumesOn(p.replicas[0].node) {
		if i := v.Import; v.Name == p.req.GetVolume() && i != nil && i.DRBD != nil && slices.EqualFunc(i.DRBD.Devices, p.replicas, func(d fsm.DRBDDevice, r importedReplica) bool {
			return d.Host == r.host.Host && d.Name == r.device
		}) {
			return v
		}
	}
	return nil
}

// addImportedReplicas says how far the import is; it is bound to the devices that it began with.
func (p *planner) addImportedReplicas(v *fsm.Volume) error {
	if err := p.addImported(v); err != nil {
		return err
	}
	var devices []string
	for i := range v.Import.DRBD.Devices {
		devices = append(devices, v.Import.DRBD.Devices[i].Device)
	}
	p.device = strings.Join(devices, ",")
	p.steps[len(p.steps)-1].node = p.replicas[0].node
	return nil
}
