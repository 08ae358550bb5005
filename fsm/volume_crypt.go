package fsm

import (
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// Crypt is the encryption of a volume, or of a snapshot of one. Its key is nowhere in the log (S63).
type Crypt struct {
	// Phase says whether the LUKS header was made: unformatted, formatting or formatted (S15, S62).
	Phase fsmpb.FormatPhase
	UUID  string // of the header
	// Epoch is of the stage that began to make the header, or that chose a clone's UUID.
	Epoch Epoch
	// Cloned: the header was copied from a source. UUID is the source's until the first stage chose
	// another (Epoch is set then); the host gives the header that UUID and reports HeaderMade.
	Cloned bool
	// KeyGeneration says how often the key was replaced. A copy has that of its source: the key of
	// that time opens it (S65).
	KeyGeneration uint64
	// Rotation was begun and is not done: until it is, the key before and the new one may both open the header. A
	// copy has that of its source.
	Rotation *KeyRotation
	// Discards pass through the encryption, so that who can read the pool learns which blocks are in use (S61).
	Discards bool
}

// fieldDiscards is hashed where it is set.
const fieldDiscards = 96

// encrypted is the encryption of a new volume, nil for one in clear.
func encrypted(c *fsmpb.CreateVolume) *Crypt {
	if !c.GetEncrypted() {
		return nil
	}
	return &Crypt{Phase: fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED, Discards: c.GetEncryptionDiscards()}
}

// cloned is the encryption of a copy: its header is its source's until the first stage. Whether discards pass
// is each volume's own.
func (c *Crypt) cloned() *Crypt {
	if c == nil {
		return nil
	}
	updated := *c
	updated.Epoch, updated.Discards = Epoch{}, false
	updated.Cloned = c.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED
	if c.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING { // what a copy has of that is no header yet
		updated = Crypt{Phase: fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED}
	}
	return &updated
}

// discards tells whether they pass through an encryption.
func (c *Crypt) discards() bool { return c != nil && c.Discards }

// LUKSHeaderBytes is what the header takes of the device below, at its beginning.
const LUKSHeaderBytes = 16 << 20

// deviceBytes is what the device of a volume, or a snapshot, of that size takes in its pool (S25).
func (c *Crypt) deviceBytes(size int64) int64 {
	if c == nil {
		return size
	}
	return size + LUKSHeaderBytes
}

// WithoutHeader is the size that an encrypted volume can have where there is room for so many bytes.
func WithoutHeader(bytes int64) int64 { return max(0, bytes-LUKSHeaderBytes) }

// keyGeneration is 0 for what is in clear.
func (c *Crypt) keyGeneration() uint64 {
	if c == nil {
		return 0
	}
	return c.KeyGeneration
}

// withDiscards is the encryption of a copy that lets discards pass, or does not.
func (c *Crypt) withDiscards(pass bool) *Crypt {
	if c != nil {
		c.Discards = pass
	}
	return c
}

// forStage decides the header at a stage, at most once in the volume's life (S15, S62). While it
// is being made the first UUID stays.
func (c *Crypt) forStage(m Meta, uuid string) (*Crypt, *Rejection) {
	begins := c != nil && (c.Phase == fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED || c.Cloned && c.Epoch.IsZero())
	if !begins {
		return c, nil
	}
	if rej := checkID("LUKS uuid", uuid); rej != nil {
		return nil, rej
	}
	updated := *c
	updated.UUID, updated.Epoch = uuid, m.Epoch
	if !c.Cloned {
		updated.Phase = fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING
	}
	return &updated, nil
}

// isBeingMade tells whether a host may be making the header, or giving it its UUID.
func (c *Crypt) isBeingMade() bool {
	return c != nil && (c.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING || c.Cloned && !c.Epoch.IsZero())
}

// isMade tells whether the volume is in clear, or its header is as the log has it.
func (c *Crypt) isMade() bool {
	return c == nil || c.Phase == fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED && !c.Cloned
}

// violated tells whether the encryption contradicts itself, or what is staged (S109).
func (c *Crypt) violated(all []Publication) bool {
	for _, p := range all {
		if p.Staging != nil && (c.Phase == fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED || p.Staging.Done && !c.isMade()) {
			return true
		}
	}
	if r := c.Rotation; r != nil && (c.Phase != fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED || r.Slot >= keySlots || r.Epoch.IsZero()) {
		return true
	}
	switch c.Phase {
	case fsmpb.FormatPhase_FORMAT_PHASE_UNFORMATTED:
		return c.UUID != "" || c.Cloned
	case fsmpb.FormatPhase_FORMAT_PHASE_FORMATTING:
		return c.UUID == "" || c.Epoch.IsZero() || c.Cloned
	case fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED:
		return c.UUID == ""
	}
	return true
}

// headerMade: the header was made, or a clone's has its own UUID, as the state chose it.
func (x reportContext) headerMade(v *Volume, f *fsmpb.HeaderMade) (Volume, bool) {
	if !v.Crypt.isBeingMade() || x.publication(v) == nil || v.Crypt.UUID != f.GetLuksUuid() {
		return *v, false
	}
	updated := *v
	updated.Crypt = &Crypt{Phase: fsmpb.FormatPhase_FORMAT_PHASE_FORMATTED, UUID: v.Crypt.UUID, KeyGeneration: v.Crypt.KeyGeneration, Rotation: v.Crypt.Rotation, Discards: v.Crypt.Discards}
	return updated, true
}

// sameEncryption refuses a copy in clear of an encrypted source, and the other way round: what is
// copied are the blocks below the encryption.
func (o *origin) sameEncryption(v *Volume) *Rejection {
	switch {
	case o.crypt != nil && v.Crypt == nil:
		return Reject(Invalid, "%s is encrypted: a volume of it is created with encrypted=true", o.description)
	case o.crypt == nil && v.Crypt != nil:
		return Reject(Invalid, "%s is not encrypted: a volume of it is not either", o.description)
	}
	return nil
}

// hashCrypt writes behind a number of the record's own, and only where something is encrypted.
func hashCrypt(e *encoder, field uint64, c *Crypt) {
	if c == nil {
		return
	}
	e.u64(field)
	e.u64(uint64(c.Phase))
	e.str(c.UUID)
	e.epoch(c.Epoch)
	e.bool(c.Cloned)
	e.u64(c.KeyGeneration)
	c.Rotation.hash(e)
	if c.Discards {
		e.u64(fieldDiscards)
	}
}

// Proto is the encryption as grants, dumps and sessions carry it, nil for what is in clear.
func (c *Crypt) Proto() *fsmpb.Crypt {
	if c == nil {
		return nil
	}
	p := &fsmpb.Crypt{Phase: c.Phase, LuksUuid: c.UUID, Cloned: c.Cloned, KeyGeneration: c.KeyGeneration, Rotation: c.Rotation.proto(), Discards: c.Discards}
	if !c.Epoch.IsZero() {
		p.Epoch = c.Epoch.Proto()
	}
	return p
}

// CryptFrom reads an encryption, nil for what is in clear.
func CryptFrom(p *fsmpb.Crypt) *Crypt {
	if p == nil {
		return nil
	}
	return &Crypt{
		Phase: p.GetPhase(), UUID: p.GetLuksUuid(), Epoch: EpochFrom(p.GetEpoch()), Cloned: p.GetCloned(), KeyGeneration: p.GetKeyGeneration(),
		Rotation: keyRotationFrom(p.GetRotation()), Discards: p.GetDiscards(),
	}
}
