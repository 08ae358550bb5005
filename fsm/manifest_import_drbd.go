package fsm

import (
	"crypto/sha256"

	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

func (d *DRBDImport) manifest() *fsmpb.DrbdImportManifest {
	if d == nil {
		return nil
	}
	return &fsmpb.DrbdImportManifest{Format: d.Format, CurrentUuid: d.UUID, ContentBytes: d.ContentBytes, ContentDigest: []byte(d.ContentDigest), Replicas: d.devices()}
}

// drbdImportFromManifest is the inverse of DRBDImport.manifest.
func drbdImportFromManifest(m *fsmpb.DrbdImportManifest) *DRBDImport {
	if m == nil {
		return nil
	}
	d := &DRBDImport{Format: m.GetFormat(), UUID: m.GetCurrentUuid(), ContentBytes: m.GetContentBytes(), ContentDigest: string(m.GetContentDigest())}
	for _, x := range m.GetReplicas() {
		d.Devices = append(d.Devices, drbdDevice(x))
	}
	return d
}

// checkAdopted refuses an import that no command can have made.
func (i *Import) checkAdopted() *Rejection {
	if i == nil {
		return nil
	}
	if !isDeviceText(i.Device) || !isDeviceText(i.Name) {
		return Reject(Invalid, "its manifest says that it was imported, of no device")
	}
	if d := i.DRBD; d != nil && !(d.hasGeneration() && d.hasDevicesOf(i)) {
		return Reject(Invalid, "its manifest says that it was imported of a DRBD resource, and not of which one")
	}
	return nil
}

func (d *DRBDImport) hasGeneration() bool {
	return (d.Format == DRBDFormat8 || d.Format == DRBDFormat9) && d.UUID > drbdJustCreated|1 && d.UUID&1 == 0 && d.ContentBytes > 0 &&
		(d.ContentDigest == "" || len(d.ContentDigest) == sha256.Size)
}

// hasDevicesOf tells whether the first device is the import's own, and each is another host's.
func (d *DRBDImport) hasDevicesOf(i *Import) bool {
	if len(d.Devices) < 1 || len(d.Devices) > MaxReplicas || d.Devices[0].Host != i.Host || d.Devices[0].Device != i.Device || d.Devices[0].Name != i.Name {
		return false
	}
	for n := range d.Devices {
		x := &d.Devices[n]
		if x.Host == "" || len(x.Host) > maxIDBytes || d.on(x.Host) != x || !isDeviceText(x.Device) || !isDeviceText(x.Name) || x.Bytes < d.ContentBytes {
			return false
		}
	}
	return true
}
