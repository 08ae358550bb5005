package fsm

import (
	"crypto/sha256"
	"slices"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// DRBDImport is the generation of a DRBD resource of others that a volume was made of.
type DRBDImport struct {
	Format       uint32 // of the metadata: 8 of DRBD 8.4, 9 of DRBD 9
	UUID         uint64 // the current one, without the primary's bit
	ContentBytes int64  // which lie before the metadata
	// ContentDigest is the SHA-256 of parts of the content, which is the same of each device.
	ContentDigest string
	// Devices are those that are taken in: of a pair two, of which the first is Import's own.
	Devices []DRBDDevice
}

// DRBDDevice is the device of one replica.
type DRBDDevice struct {
	Host         HostID
	Device, Name string // as in Import
	Bytes        int64  // of the whole device, with the metadata
	Node         uint32 // its node id in metadata of DRBD 9
}

// DesiredDRBDImport is what a host does with a device of a DRBD resource that it takes in.
type DesiredDRBDImport struct {
	// Format, UUID and ContentBytes are what the device's metadata have to say, or it is not taken in.
	Format       uint32
	UUID         uint64
	ContentBytes int64
	DeviceBytes  int64
	// ContentDigest is the one that the device's content has to have; the metadata do not tell who wrote beside DRBD.
	ContentDigest string
	// Peer is the other replica's node id in metadata of DRBD 9, where two are imported: Paired.
	Peer   int32
	Paired bool
	// Replace: every host took its device in, so the metadata are kept in a file and overwritten.
	Replace bool
}

// The numbers before a DRBD import in a volume's hash, and before what it has of its content.
const (
	fieldImportDRBD   = 113
	fieldImportDigest = 114
)

// The formats of DRBD's metadata.
const (
	DRBDFormat8 = 8 // of DRBD 8.4
	DRBDFormat9 = 9 // of DRBD 9
)

func (d *DRBDImport) hash(e *encoder) {
	if d == nil {
		return
	}
	e.u64(fieldImportDRBD)
	e.u64(uint64(d.Format))
	e.u64(d.UUID)
	e.i64(d.ContentBytes)
	e.u64(uint64(len(d.Devices)))
	for i := range d.Devices {
		x := &d.Devices[i]
		e.str(string(x.Host))
		e.str(x.Device)
		e.str(x.Name)
		e.i64(x.Bytes)
		e.u64(uint64(x.Node))
	}
	if d.ContentDigest != "" {
		e.u64(fieldImportDigest)
		e.str(d.ContentDigest)
	}
}

func (d *DRBDImport) record() *fsmpb.DrbdImportRecord {
	if d == nil {
		return nil
	}
	return &fsmpb.DrbdImportRecord{Format: d.Format, CurrentUuid: d.UUID, ContentBytes: d.ContentBytes, ContentDigest: []byte(d.ContentDigest), Replicas: d.devices()}
}

func (d *DRBDImport) devices() (all []*fsmpb.DrbdReplica) {
	for _, x := range d.Devices {
		all = append(all, &fsmpb.DrbdReplica{HostId: string(x.Host), DeviceId: x.Device, DeviceName: x.Name, DeviceBytes: x.Bytes, DrbdNode: x.Node})
	}
	return all
}

func drbdImportFrom(r *fsmpb.DrbdImportRecord) *DRBDImport {
	if r == nil {
		return nil
	}
	d := &DRBDImport{Format: r.GetFormat(), UUID: r.GetCurrentUuid(), ContentBytes: r.GetContentBytes(), ContentDigest: string(r.GetContentDigest())}
	for _, x := range r.GetReplicas() {
		d.Devices = append(d.Devices, drbdDevice(x))
	}
	return d
}

func drbdDevice(x *fsmpb.DrbdReplica) DRBDDevice {
	return DRBDDevice{Host: HostID(x.GetHostId()), Device: x.GetDeviceId(), Name: x.GetDeviceName(), Bytes: x.GetDeviceBytes(), Node: x.GetDrbdNode()}
}

// on is the host's device, nil when it has none.
func (d *DRBDImport) on(host HostID) *DRBDDevice {
	if d == nil {
		return nil
	}
	i := slices.IndexFunc(d.Devices, func(x DRBDDevice) bool { return x.Host == host })
	if i < 0 {
		return nil
	}
	return &d.Devices[i]
}

// importDRBD is what DesiredVolume.ImportDRBD says to a host.
func (v *Volume) importDRBD(host HostID) *DesiredDRBDImport {
	if v.Import == nil || !v.isCreating() {
		return nil
	}
	d := v.Import.DRBD
	own := d.on(host)
	if own == nil {
		return nil
	}
	want := &DesiredDRBDImport{
		Format: d.Format, UUID: d.UUID, ContentBytes: d.ContentBytes, ContentDigest: d.ContentDigest, DeviceBytes: own.Bytes, Paired: v.Replicated(),
	}
	want.Replace = !want.Paired || v.allPresent()
	for i := range d.Devices {
		if x := &d.Devices[i]; x.Host != host {
			want.Peer = int32(x.Node)
		}
	}
	return want
}

// applyImportDrbd makes a volume of the replicas of a DRBD resource of others. They are of one generation by what the
// proposer read; each host reads that again before it touches its device, and before it replaces the metadata.
func applyImportDrbd(s *State, m Meta, c *fsmpb.ImportDrbd) (*fsmpb.Outcome, *Rejection) {
	if rej := checkDRBDReplicas(c); rej != nil {
		return nil, rej
	}
	nodes, rej := s.drbdHosts(c)
	if rej != nil {
		return nil, rej
	}
	if v := s.importOf(nodes[0], c.GetReplicas()[0].GetDeviceId()); v != nil {
		return s.joinImportDRBD(v, c)
	}
	v, rej := s.drbdVolume(m, nodes, c)
	if rej != nil {
		return nil, rej
	}
	s.intern.volume(&v)
	s.putVolume(v)
	return &fsmpb.Outcome{VolumeId: string(v.ID), OperationId: m.Index}, nil
}

// checkDRBDReplicas refuses replicas that are not provably of one generation, and content that would not be whole.
func checkDRBDReplicas(c *fsmpb.ImportDrbd) *Rejection {
	all, name := c.GetReplicas(), clip(c.GetName())
	if len(all) < 1 || len(all) > MaxReplicas {
		return Reject(Invalid, "import volume %q: name one replica or two of the DRBD resource, not %d", name, len(all))
	}
	if len(c.GetContentDigest()) != sha256.Size {
		return Reject(Invalid, "import volume %q: its content's digest has %d bytes, not %d", name, len(c.GetContentDigest()), sha256.Size)
	}
	first := all[0]
	for _, r := range all {
		switch {
		case r.GetFormat() != DRBDFormat8 && r.GetFormat() != DRBDFormat9 || r.GetCurrentUuid() <= drbdJustCreated|1:
			return Reject(Invalid, "import volume %q: %s has no generation of DRBD's", name, clip(r.GetDeviceName()))
		case r.GetFormat() != first.GetFormat() || r.GetCurrentUuid()&^1 != first.GetCurrentUuid()&^1 || r.GetContentBytes() != first.GetContentBytes():
			return Reject(Precondition, "import volume %q: %s and %s are not of one generation: let them synchronise, then `drbdadm down` on both hosts; or import the good one alone", name, clip(first.GetDeviceName()), clip(r.GetDeviceName()))
		case r.GetContentBytes() <= 0 || r.GetContentBytes() > c.GetSizeBytes() || c.GetSizeBytes() > r.GetDeviceBytes():
			return Reject(OutOfRange, "import volume %q: the content's %d bytes do not fit into a volume of %d bytes on a device of %d", name, r.GetContentBytes(), c.GetSizeBytes(), r.GetDeviceBytes())
		}
	}
	if len(all) == 1 && first.GetDeviceBytes() != c.GetSizeBytes() {
		return Reject(OutOfRange, "import volume %q: a volume of one replica has its device's %d bytes, not %d", name, first.GetDeviceBytes(), c.GetSizeBytes())
	}
	if len(all) == 2 && first.GetFormat() == DRBDFormat9 && first.GetDrbdNode() == all[1].GetDrbdNode() {
		return Reject(Invalid, "import volume %q: %s and %s are the same node of the DRBD resource", name, clip(first.GetDeviceName()), clip(all[1].GetDeviceName()))
	}
	return nil
}

// drbdHosts are the hosts of the replicas; each is another one's.
func (s *State) drbdHosts(c *fsmpb.ImportDrbd) ([]*Node, *Rejection) {
	var nodes []*Node
	for _, r := range c.GetReplicas() {
		n, rej := s.nodeOfHost(r.GetNodeId(), r.GetHostId())
		if rej != nil {
			return nil, Reject(rej.Reason, "import a volume: %s", rej.Message)
		}
		if len(nodes) > 0 && nodes[0].ID == n.ID {
			return nil, Reject(Invalid, "import volume %q: both replicas are on node %s", clip(c.GetName()), n.ID)
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// joinImportDRBD answers with the volume that the first device is already, if the others are its too.
func (s *State) joinImportDRBD(v *Volume, c *fsmpb.ImportDrbd) (*fsmpb.Outcome, *Rejection) {
	same := v.Import.DRBD != nil && len(v.Import.DRBD.Devices) == len(c.GetReplicas())
	for _, r := range c.GetReplicas() {
		same = same && v.Import.deviceOn(HostID(r.GetHostId())) == r.GetDeviceId()
	}
	if !same {
		return nil, Reject(Incompatible, "import volume %q: device %s is volume %s already, and not with these replicas", clip(c.GetName()), v.Import.Name, v.ID)
	}
	return s.joinImport(v, c.GetName())
}

// drbdVolume reads the volume from the command, and checks each device as one that is imported alone.
func (s *State) drbdVolume(m Meta, nodes []*Node, c *fsmpb.ImportDrbd) (Volume, *Rejection) {
	first := c.GetReplicas()[0]
	v, rej := s.importedVolume(m, nodes[0], importOfReplica(c, first))
	if rej != nil {
		return v, rej
	}
	v.Import.DRBD = &DRBDImport{Format: first.GetFormat(), UUID: first.GetCurrentUuid() &^ 1, ContentBytes: first.GetContentBytes(), ContentDigest: string(c.GetContentDigest())}
	for i, r := range c.GetReplicas() {
		if other := s.importOf(nodes[i], r.GetDeviceId()); other != nil {
			return v, Reject(Incompatible, "import volume %q: device %s is volume %s already", v.Name, clip(r.GetDeviceName()), other.ID)
		}
		if rej := s.checkImport(nodes[i], &v, importOfReplica(c, r)); rej != nil {
			return v, rej
		}
		v.Import.DRBD.Devices = append(v.Import.DRBD.Devices, drbdDevice(r))
	}
	if len(nodes) == 1 {
		return v, nil
	}
	return v, s.pairImport(m, &v, nodes, c.GetReplicas()[1])
}

func importOfReplica(c *fsmpb.ImportDrbd, r *fsmpb.DrbdReplica) *fsmpb.ImportVolume {
	return &fsmpb.ImportVolume{
		VolumeId: c.GetVolumeId(), Name: c.GetName(), NodeId: r.GetNodeId(), HostId: r.GetHostId(), PoolId: r.GetPoolId(), DeviceId: r.GetDeviceId(),
		DeviceName: r.GetDeviceName(), SizeBytes: c.GetSizeBytes(), Block: c.GetBlock(), FsType: c.GetFsType(), FsUuid: c.GetFsUuid(),
	}
}

// pairImport gives the volume its second replica. It is born as a new pair is, with its content at both.
func (s *State) pairImport(m Meta, v *Volume, nodes []*Node, second *fsmpb.DrbdReplica) *Rejection {
	for _, n := range nodes {
		if !n.canHoldReplicas() {
			return Reject(Precondition, "import volume %q: node %s holds no replicas of replicated volumes", v.Name, n.ID)
		}
	}
	if nodes[0].site() != nodes[1].site() {
		return Reject(Precondition, "import volume %q: nodes %s and %s are at two sites: import one replica, and enable replication between the sites", v.Name, nodes[0].ID, nodes[1].ID)
	}
	v.Replicas = append(v.Replicas, Replica{Node: nodes[1].ID, Host: nodes[1].Host, Pool: PoolID(second.GetPoolId()), State: ReplicaPlanned})
	minor, port, rej := s.freeMinor(&v.Replicas[0], &v.Replicas[1])
	if rej != nil {
		return rej
	}
	v.Replication = &Replication{
		Protocol: fsmpb.Protocol_PROTOCOL_C, ReplicaCount: MaxReplicas, Minor: minor, Port: port, Seed: nodes[0].Host, Generation: m.Index,
	}
	for i := range v.Replicas {
		v.Replicas[i].ReplicaSync = &ReplicaSync{}
	}
	return nil
}
