package agent

import (
	"context"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/plan"
	"github.com/holdfast-storage/holdfast/fsm"
)

// cryptState is what the process knows of an encryption between two observations.
type cryptState struct {
	header   executor.LUKSHeader // of the active device, as far as it was read
	backedUp bool
	restored bool
	wiped    bool
}

// aboveEncryption is the volume's device as it is used: of an encrypted volume the mapping, beside what
// is below. A volume in clear is its own device.
func (t *table) aboveEncryption(ctx context.Context, v *volume, below executor.Device) (executor.Device, *plan.ObservedCrypt, error) {
	if !t.isEncrypted(v) {
		return below, nil, nil
	}
	if t.Encryptor == nil {
		return below, nil, fsm.Reject(fsm.Precondition, "volume %s is encrypted, and this host cannot open it", v.id)
	}
	mapping, err := t.Encryptor.Mapping(ctx, v.id)
	if err != nil {
		return below, nil, err
	}
	above := below
	above.Path, above.Number, above.ReadOnly, above.StablePath = mapping.Path, mapping.Number, mapping.ReadOnly, mapping.StablePath
	return above, &plan.ObservedCrypt{Below: below, Mapping: mapping}, nil
}

// observeCrypt completes the observation of an encryption with what is known of the header. The caller holds the volume's lock.
func (o *observer) observeCrypt(v *volume, device *executor.Device, c *plan.ObservedCrypt) {
	if !c.Below.Active() {
		v.crypt.header, v.crypt.backedUp, v.crypt.restored = executor.LUKSHeader{}, false, false
	}
	c.Header, c.BackedUp, c.Restored, c.Wiped = v.crypt.header, v.crypt.backedUp, v.crypt.restored, v.crypt.wiped
	if v.record.HeaderWiped && device.Exists { // its content is gone: what is left is to be removed
		device.Exists, device.Unfinished = false, true
	}
}
