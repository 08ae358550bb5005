package admin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// The verbs that make a volume of a logical volume that a host has, and that give it back.
const (
	importLV     = "import-lv"
	forgetImport = "forget-import"
)

// rawSignatures are what may be on a device that is imported for raw use: what a guest or a database has on its disk.
// Anything else says that the device is a part of something that is put together elsewhere.
var rawSignatures = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "ntfs", "iso9660", "udf", "crypto_LUKS", "dos", "gpt", "PMBR"}

// askCandidates asks the host that is imported from; nil for other verbs.
func (s *Server) askCandidates(ctx context.Context, req *adminpb.PlanRequest) ([]*fsmpb.ImportCandidate, error) {
	if req.GetVerb() != importLV {
		return nil, nil
	}
	return s.Hosts.Candidates(ctx, fsm.NodeID(req.GetNode()))
}

// planImport makes a volume of the named logical volume: the log says so first, then its host takes it in.
func (p *planner) planImport() error {
	n, _ := p.state.Node(p.nodeID())
	if n.Host != p.host {
		return p.wrongHost(n)
	}
	if p.req.GetVolume() == "" {
		return fsm.Reject(fsm.Invalid, "name the volume that it becomes")
	}
	if v := p.importedVolume(); v != nil {
		return p.addImported(v)
	}
	c, err := findCandidate(p.nodeID(), p.req.GetPool(), p.deviceName(), p.candidates)
	if err != nil {
		return err
	}
	p.device = c.GetDeviceId()
	if asked := p.req.GetDeviceId(); asked != "" && asked != p.device {
		return fsm.Reject(fsm.StaleEpoch, "the logical volume %s is %s, not %s: look at the plan again", c.GetDeviceName(), p.device, asked)
	}
	view := &fsm.Volume{Name: p.req.GetVolume()}
	if why := refuseImport(c, p.req.GetBlock()); why != "" {
		p.add(step{action: "import", state: stepBlocked, volume: view, detail: describeCandidate(c) + ": " + why})
		return nil
	}
	if p.addCommand(step{action: "import", volume: view, detail: describeCandidate(c)}, p.importCommand(n, c)) {
		p.add(step{action: "rename", state: stepFollows, volume: view, detail: "its host gives it the volume's id as its name, and tags; what is on it is neither copied nor written to"})
		p.add(step{action: "not-known", state: stepFollows, volume: view, detail: "whether anything that does not run now looks for it by its former name: /etc/fstab, a guest's definition, another control plane"})
	}
	return nil
}

// importedVolume is the volume that was made of the named logical volume by an earlier call.
func (p *planner) importedVolume() *fsm.Volume {
	for v := range p.state.VolumesOn(p.nodeID()) {
		if i := v.Import; i != nil && i.Host == p.host && i.Name == p.deviceName() && v.Name == p.req.GetVolume() {
			return v
		}
	}
	return nil
}

func (p *planner) addImported(v *fsm.Volume) error {
	p.device = v.Import.Device
	t := step{action: "import", volume: v, state: stepDone, detail: fmt.Sprintf("it was %s, %s", v.Import.Name, v.Import.Device)}
	switch v.Phase.(type) {
	case fsm.Creating:
		t.state, t.detail = stepWaiting, "its host takes "+v.Import.Name+" in"
		if op := v.Operation; op != nil && op.LastError != "" {
			t.detail += ": " + op.LastError
		}
	case fsm.Deleting:
		t.state, t.detail = stepWaiting, "it is being removed or given back"
		if why := v.CreateFailure(); why != nil {
			t.detail = "it could not be imported, and is given back: " + why.LastError
		}
	case fsm.Ready, fsm.Failed: // it is done; the volume says what became of it
	}
	p.add(t)
	return nil
}

// deviceName is the name of the logical volume, which may be said with its volume group.
func (p *planner) deviceName() string { return volumeNameOf(p.req.GetDevice()) }

func volumeNameOf(device string) string {
	_, name, qualified := strings.Cut(strings.TrimPrefix(device, "/dev/"), "/")
	if !qualified {
		return device
	}
	return name
}

// findCandidate finds the named logical volume among what the host has.
func findCandidate(node fsm.NodeID, pool, device string, candidates []*fsmpb.ImportCandidate) (*fsmpb.ImportCandidate, error) {
	var found, names []string
	var one *fsmpb.ImportCandidate
	for _, c := range candidates {
		if pool != "" && pool != c.GetPoolId() {
			continue
		}
		names = append(names, c.GetDeviceName())
		if c.GetDeviceName() == device {
			one, found = c, append(found, c.GetPoolId())
		}
	}
	slices.Sort(names)
	switch {
	case len(found) == 1:
		return one, nil
	case len(found) > 1:
		return nil, fsm.Reject(fsm.Invalid, "node %s has %s in the volume groups of the pools %s: say which with --pool", node, device, strings.Join(found, " and "))
	case len(names) == 0:
		return nil, fsm.Reject(fsm.NotFound, "node %s has no logical volume beside its volumes in the volume groups of its pools", node)
	}
	return nil, fsm.Reject(fsm.NotFound, "node %s has no logical volume %q beside its volumes; it has %s", node, device, strings.Join(names, ", "))
}

// describeCandidate says what is known of it.
func describeCandidate(c *fsmpb.ImportCandidate) string {
	on := "what is on it was not read"
	if c.GetProbed() {
		on = "nothing known is on it"
		if len(c.GetSignatures()) > 0 {
			on = strings.Join(c.GetSignatures(), ", ") + " on it"
		}
		if c.GetFsType() != "" {
			on = fmt.Sprintf("%s %s on it", c.GetFsType(), c.GetFsUuid())
		}
	}
	return fmt.Sprintf("%s, %s, %s of pool %s, %s, %s", c.GetDeviceName(), c.GetDeviceId(), formatSize(c.GetSizeBytes()), c.GetPoolId(), on, describeUse(c))
}

func describeUse(c *fsmpb.ImportCandidate) string {
	switch {
	case len(c.GetMounts()) > 0:
		return "mounted at " + strings.Join(c.GetMounts(), " and ")
	case c.GetOpenCount() > 0:
		return fmt.Sprintf("open %d times", c.GetOpenCount())
	case !c.GetActive():
		return "not active"
	}
	return "not open"
}

// refuseImport is why it may not be imported, with the remedy; empty: it may.
func refuseImport(c *fsmpb.ImportCandidate, block bool) string {
	known := c.GetSignatures()
	switch {
	case c.GetRefusal() != "":
		return c.GetRefusal()
	case c.GetDrbd() != nil || slices.Contains(known, "drbd"):
		return "it is a part of something else, a DRBD resource: `holdfast import drbd` takes it in"
	case c.GetOpenCount() > 0 || len(c.GetMounts()) > 0:
		return "end what uses it, and unmount it"
	case !c.GetProbed():
		return "nothing is imported unread: " + c.GetDetail()
	case c.GetSizeBytes()%fsm.VolumeSizeUnit != 0:
		return fmt.Sprintf("its size is no multiple of %d bytes: extend it", fsm.VolumeSizeUnit)
	case !block && (!fsm.KnownFSType(c.GetFsType()) || !slices.Equal(known, []string{c.GetFsType()})):
		return "it holds no ext4 or xfs alone: with --block it is imported for raw use, for ever"
	case block:
		for _, s := range known {
			if !slices.Contains(rawSignatures, s) {
				return s + " says that it is a part of something else: take it out of that first"
			}
		}
	}
	return ""
}

func (p *planner) importCommand(n *fsm.Node, c *fsmpb.ImportCandidate) *fsmpb.Command {
	cmd := &fsmpb.ImportVolume{
		VolumeId: "hf-" + uuid.NewString(), Name: p.req.GetVolume(), NodeId: string(n.ID), HostId: string(n.Host), PoolId: c.GetPoolId(),
		DeviceId: c.GetDeviceId(), DeviceName: c.GetDeviceName(), SizeBytes: c.GetSizeBytes(), Block: p.req.GetBlock(),
	}
	if !cmd.GetBlock() {
		cmd.FsType, cmd.FsUuid = c.GetFsType(), c.GetFsUuid()
	}
	return &fsmpb.Command{Body: &fsmpb.Command_ImportVolume{ImportVolume: cmd}}
}

// findImported binds a forget to the host that has the imported device.
func (p *planner) findImported() {
	v := findVolume(p.state, p.req.GetVolume())
	if v == nil || v.Import == nil {
		return
	}
	for i := range v.Replicas {
		if v.Replicas[i].Host == v.Import.Host {
			p.node, p.host = v.Replicas[i].Node, v.Import.Host
		}
	}
}

// planForgetImport gives an imported logical volume back, with its content and under its former name.
func (p *planner) planForgetImport() error {
	v := findVolume(p.state, p.req.GetVolume())
	switch {
	case v == nil:
		p.add(step{action: "forget", state: stepDone, detail: fmt.Sprintf("no volume has the id or name %q", p.req.GetVolume())})
		return nil
	case v.Import == nil:
		return fsm.Reject(fsm.Precondition, "volume %s was not imported: delete it, or keep it", v.ID)
	case p.req.GetHostId() != "" && p.req.GetHostId() != string(v.Import.Host):
		return fsm.Reject(fsm.StaleEpoch, "volume %s was imported on host %s, not %s: look at the plan again", v.ID, v.Import.Host, p.req.GetHostId())
	}
	p.device = v.Import.Device
	detail := fmt.Sprintf("its host calls it %s again, %s; what is on it stays as it is", v.Import.Name, v.Import.Device)
	if _, deleting := v.Phase.(fsm.Deleting); deleting && v.Import.GiveBack {
		if v.Operation != nil && v.Operation.LastError != "" {
			detail += ": " + v.Operation.LastError
		}
		p.add(step{action: "forget", state: stepWaiting, volume: v, node: p.node, detail: detail})
		return nil
	}
	p.addCommand(step{action: "forget", volume: v, node: p.node, detail: detail}, &fsmpb.Command{Body: &fsmpb.Command_ForgetImport{
		ForgetImport: &fsmpb.ForgetImport{VolumeId: string(v.ID), DeviceId: v.Import.Device}}})
	return nil
}
