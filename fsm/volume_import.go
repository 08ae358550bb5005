package fsm

import (
	"cmp"
	"strings"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Import is the device that a volume was made of by an import. The volume's content was there before it: no state of
// it permits a filesystem to be made (S15, S109).
type Import struct {
	Host   HostID
	Device string // the storage's own identity of it
	Name   string // what it was called there
	// GiveBack: the host gives the device its former name back, where others remove theirs.
	GiveBack bool
	// DRBD is set where it is a replica of a DRBD resource of others; its pair's other device is there, too.
	DRBD *DRBDImport
}

// The number before an import in a volume's hash, and the longest name or identity of a device in bytes.
const (
	fieldImport     = 111
	maxDeviceBytes  = 128
	importedFSBytes = 36 // the length of a UUID as text
)

func (i *Import) hash(e *encoder) {
	if i == nil {
		return
	}
	e.u64(fieldImport)
	e.str(string(i.Host))
	e.str(i.Device)
	e.str(i.Name)
	e.bool(i.GiveBack)
	i.DRBD.hash(e)
}

func (i *Import) record() *fsmpb.ImportRecord {
	if i == nil {
		return nil
	}
	return &fsmpb.ImportRecord{HostId: string(i.Host), DeviceId: i.Device, DeviceName: i.Name, GiveBack: i.GiveBack, Drbd: i.DRBD.record()}
}

func importFrom(r *fsmpb.ImportRecord) *Import {
	if r == nil {
		return nil
	}
	return &Import{Host: HostID(r.GetHostId()), Device: r.GetDeviceId(), Name: r.GetDeviceName(), GiveBack: r.GetGiveBack(), DRBD: drbdImportFrom(r.GetDrbd())}
}

// isOf tells whether the host has the imported device.
func (i *Import) isOf(host HostID) bool { return i.deviceOn(host) != "" }

// deviceOn is the identity of the host's imported device; empty: it has none.
func (i *Import) deviceOn(host HostID) string {
	switch {
	case i == nil:
	case i.Host == host:
		return i.Device
	case i.DRBD.on(host) != nil:
		return i.DRBD.on(host).Device
	}
	return ""
}

// hasContent tells whether the state forbids for ever that a filesystem is made.
func (v *Volume) hasContent() bool {
	return v.Format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED || v.Format.Phase == fsmpb.FormatPhase_FORMAT_PHASE_RAW
}

// importAtRemoval is the import of a volume whose removal begins. One that never became Ready gives its device back:
// nobody asked for the removal of what was on it.
func (v *Volume) importAtRemoval() *Import {
	if _, ready := v.Phase.(Ready); v.Import == nil || ready {
		return v.Import
	}
	updated := *v.Import
	updated.GiveBack = true
	return &updated
}

// importDevice is what DesiredVolume.ImportDevice says to a host.
func (v *Volume) importDevice(host HostID) string {
	if !v.Import.isOf(host) {
		return ""
	}
	_, creating := v.Phase.(Creating)
	_, deleting := v.Phase.(Deleting)
	if creating || deleting && v.Import.GiveBack {
		return v.Import.deviceOn(host)
	}
	return ""
}

// applyImportVolume makes a volume of a device that its host has; its host takes it in. It is not placed, and what the
// pool has reserved does not keep it out: its blocks are in the pool already.
func applyImportVolume(s *State, m Meta, c *fsmpb.ImportVolume) (*fsmpb.Outcome, *Rejection) {
	n, rej := s.nodeOfHost(c.GetNodeId(), c.GetHostId())
	if rej != nil {
		return nil, Reject(rej.Reason, "import a volume: %s", rej.Message)
	}
	if v := s.importOf(n, c.GetDeviceId()); v != nil {
		return s.joinImport(v, c.GetName())
	}
	v, rej := s.importedVolume(m, n, c)
	if rej != nil {
		return nil, rej
	}
	if rej := s.checkImport(n, &v, c); rej != nil {
		return nil, rej
	}
	s.intern.volume(&v)
	s.putVolume(v)
	return &fsmpb.Outcome{VolumeId: string(v.ID), OperationId: m.Index}, nil
}

// importOf is the volume that was made of the device, nil when there is none.
func (s *State) importOf(n *Node, device string) *Volume {
	for v := range s.VolumesOn(n.ID) {
		if device != "" && v.Import.deviceOn(n.Host) == device {
			return v
		}
	}
	return nil
}

// joinImport answers with the volume that the device is already, if it is what was asked for.
func (s *State) joinImport(v *Volume, name string) (*fsmpb.Outcome, *Rejection) {
	_, deleting := v.Phase.(Deleting)
	switch {
	case deleting:
		return nil, Reject(Busy, "import volume %q: device %s is being removed or given back as volume %s", clip(name), v.Import.Name, v.ID)
	case v.Name != name:
		return nil, Reject(Incompatible, "import volume %q: device %s is volume %s with the name %q", clip(name), v.Import.Name, v.ID, v.Name)
	}
	return &fsmpb.Outcome{VolumeId: string(v.ID), OperationId: uint64(v.Operation.idOrZero())}, nil
}

func (o *Operation) idOrZero() OperationID {
	if o == nil {
		return 0
	}
	return o.ID
}

// importedVolume reads the volume from the command; it has its content from the beginning.
func (s *State) importedVolume(m Meta, n *Node, c *fsmpb.ImportVolume) (Volume, *Rejection) {
	capability := Capability{Mode: fsmpb.AccessMode_ACCESS_MODE_SINGLE_NODE_WRITER, Block: c.GetBlock(), FSType: c.GetFsType()}
	v := Volume{
		ID: VolumeID(c.GetVolumeId()), Name: c.GetName(), Size: c.GetSizeBytes(), Capabilities: []Capability{capability}, Origin: n.site(), Home: n.site(),
		Format:   Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, FSType: c.GetFsType(), FSUUID: c.GetFsUuid()},
		Replicas: []Replica{{Node: n.ID, Host: n.Host, Pool: PoolID(c.GetPoolId()), State: ReplicaPlanned}},
		Import:   &Import{Host: n.Host, Device: c.GetDeviceId(), Name: c.GetDeviceName()},
		Phase:    Creating{}, Operation: m.operation(OpCreate), Created: m.Epoch, MadeBy: s.maker(m.Actor),
	}
	if c.GetBlock() {
		v.Format = Format{Phase: fsmpb.FormatPhase_FORMAT_PHASE_RAW}
	}
	return v, capability.check()
}

// checkImport refuses what no volume can be, and what another one is.
func (s *State) checkImport(n *Node, v *Volume, c *fsmpb.ImportVolume) *Rejection {
	pool := n.pool(PoolID(c.GetPoolId()))
	mounted := !c.GetBlock()
	switch {
	case !v.ID.Valid():
		return Reject(Invalid, "import a volume: %q is not a volume id", clip(c.GetVolumeId()))
	case v.Name == "" || len(v.Name) > maxNameBytes:
		return Reject(Invalid, "import a volume: the name must have 1 to %d bytes, it has %d", maxNameBytes, len(v.Name))
	case !isDeviceText(c.GetDeviceId()) || !isDeviceText(c.GetDeviceName()):
		return Reject(Invalid, "import volume %q: %q is no device", v.Name, clip(cmp.Or(c.GetDeviceName(), c.GetDeviceId())))
	case v.Size <= 0 || v.Size > MaxVolumeSize || v.Size%VolumeSizeUnit != 0:
		return Reject(OutOfRange, "import volume %q: its device has %d bytes: a volume has a multiple of %d up to %d", v.Name, v.Size, VolumeSizeUnit, int64(MaxVolumeSize))
	case mounted && (!KnownFSType(c.GetFsType()) || len(c.GetFsUuid()) != importedFSBytes):
		return Reject(Precondition, "import volume %q: its device has no ext4 or xfs with a UUID on it: it can be imported for raw use only", v.Name)
	case !mounted && (c.GetFsType() != "" || c.GetFsUuid() != ""):
		return Reject(Invalid, "import volume %q: a volume for raw use has no filesystem", v.Name)
	case pool == nil:
		return Reject(NotFound, "import volume %q: node %s has no pool %s", v.Name, n.ID, clip(c.GetPoolId()))
	case pool.Backend != lvmBackend:
		return Reject(Precondition, "import volume %q: pool %s is no pool of LVM's", v.Name, pool.ID)
	case n.Incarnation != s.cluster.Incarnation:
		return Reject(Precondition, "import volume %q: node %s is in adoption mode: adopt it first", v.Name, n.ID)
	}
	return s.checkImportUnique(v)
}

func (s *State) checkImportUnique(v *Volume) *Rejection {
	if other, taken := s.VolumeByName(v.Origin, v.Name); taken {
		return Reject(Incompatible, "import volume %q: volume %s has that name", v.Name, other.ID)
	}
	if other, taken := s.Volume(v.ID); taken {
		return Reject(Incompatible, "import volume %q: id %s belongs to volume %q already", v.Name, v.ID, other.Name)
	}
	return nil
}

// isDeviceText tells what may be an identity or a name of a device: hosts pass it to commands.
func isDeviceText(text string) bool {
	return text != "" && len(text) <= maxDeviceBytes && text[0] != '-' && !strings.ContainsFunc(text, isNoDeviceRune)
}

func isNoDeviceRune(r rune) bool { return isNoSiteRune(r) && r != '+' }

// applyForgetImport begins a removal at which the device stays, with its former name and its content.
func applyForgetImport(s *State, m Meta, c *fsmpb.ForgetImport) (*fsmpb.Outcome, *Rejection) {
	id := VolumeID(c.GetVolumeId())
	v, known := s.Volume(id)
	if !known {
		return &fsmpb.Outcome{}, nil
	}
	if out := s.deletedVolume(&fsmpb.DeleteVolume{VolumeId: string(id)}); out != nil {
		if v.Import == nil || !v.Import.GiveBack {
			return nil, Reject(Precondition, "give back volume %s: it is being removed with its device", id)
		}
		return out, nil
	}
	copies, rej := s.checkForget(m, v, c)
	if rej != nil {
		return nil, rej
	}
	s.removeKeptCopies(copies...)
	given := *v.Import
	given.GiveBack = true
	forgotten := *v
	forgotten.Import = &given
	return s.beginDelete(m, &forgotten, m.operation(OpDelete)), nil
}

func (s *State) checkForget(m Meta, v *Volume, c *fsmpb.ForgetImport) ([]*Snapshot, *Rejection) {
	switch {
	case v.Import == nil:
		return nil, Reject(Precondition, "give back volume %s: it has no imported device", v.ID)
	case v.Import.Device != c.GetDeviceId():
		return nil, Reject(StaleEpoch, "give back volume %s: its device is %s, not %s", v.ID, v.Import.Device, clip(c.GetDeviceId()))
	case v.Replication != nil || s.RelationOf(v) != nil || len(v.Replicas) != 1:
		return nil, Reject(Precondition, "give back volume %s: it is replicated, and its devices carry Holdfast's metadata behind the content: copy the content out of the published volume, or keep it", v.ID)
	case s.GroupOf(v.ID) != "":
		return nil, Reject(Precondition, "give back volume %s: it is in volume group %s: take it out first", v.ID, s.GroupOf(v.ID))
	}
	return s.checkDelete(m.endpoint, v)
}
