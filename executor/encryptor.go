package executor

import (
	"context"
	"fmt"
	"io"

	"github.com/holdfast-storage/holdfast/fsm"
)

// LUKSHeaderBytes is what the header takes of the device below, at its beginning.
const LUKSHeaderBytes = fsm.LUKSHeaderBytes

// MaxPassphraseBytes is how long a passphrase may be; people can type no longer one into cryptsetup.
const MaxPassphraseBytes = 512

// Encryptor encrypts volumes: a LUKS2 header at the beginning of a device, and a mapping above the
// device while it is open. Every step may be repeated after it was done. Methods may be called
// concurrently for different volumes; for one volume the agent holds a lock.
//
// Refusals are *fsm.Rejection: Unauthenticated when no slot is opened by a passphrase, Busy for a
// mapping that is in use. No error holds a passphrase (S63).
type Encryptor interface {
	// Check returns why this host cannot encrypt, nil when it can.
	Check(ctx context.Context) error
	// Mapping observes the volume's mapping: Exists, Path, Number, Size and ReadOnly are its own.
	Mapping(ctx context.Context, id fsm.VolumeID) (Device, error)
	// Mappings lists the mappings of all volumes, without a look at any device.
	Mappings(ctx context.Context) ([]LUKSMapping, error)
	// HeaderUUID returns the UUID of the LUKS header on a device or in a file; empty: there is none. What
	// cannot be read is an error.
	HeaderUUID(ctx context.Context, path string) (string, error)
	// ProbeHeader reads the header on a device, and what else is there. A device that cannot be read is an
	// error, never one without a header (S62).
	ProbeHeader(ctx context.Context, device string) (LUKSHeader, error)
	// Format makes the header, with this UUID and one slot. It writes over what is there (S15).
	Format(ctx context.Context, device, uuid string, key Passphrase) error
	// ChangeUUID gives the header of a clone a UUID of its own.
	ChangeUUID(ctx context.Context, device, uuid string) error
	// Open makes the mapping with the first of the passphrases that opens a slot.
	Open(ctx context.Context, id fsm.VolumeID, device string, o OpenOptions, keys ...Passphrase) error
	// Close removes the mapping. Not there is success.
	Close(ctx context.Context, id fsm.VolumeID) error
	// Resize grows the mapping to the device below.
	Resize(ctx context.Context, id fsm.VolumeID, keys ...Passphrase) error
	// OpensSlot reports whether the passphrase opens this slot.
	OpensSlot(ctx context.Context, device string, slot int, key Passphrase) (bool, error)
	// AddKey puts the second passphrase into a slot that is free; the first opens another slot.
	AddKey(ctx context.Context, device string, slot int, known, added Passphrase) error
	// KillSlot removes a slot; the passphrase must open another one.
	KillSlot(ctx context.Context, device string, slot int, remaining Passphrase) error
	// BackUpHeader replaces the file by the header on the device, atomically. What was in the file is overwritten: it
	// may have a key that was removed since (S65).
	BackUpHeader(ctx context.Context, device, file string) error
	// RemoveBackup overwrites the file and removes it, with all that an interrupted BackUpHeader left of it. Not there is success.
	RemoveBackup(ctx context.Context, file string) error
	// RestoreHeader writes the header in the file onto the device.
	RestoreHeader(ctx context.Context, device, file string) error
	// WipeHeader overwrites the header: nobody can read the content afterwards.
	WipeHeader(ctx context.Context, device string) error
}

// OpenOptions are how a mapping is made.
type OpenOptions struct {
	ReadOnly bool
	// Discards: what is discarded above the mapping is discarded below it, too. Without it a discard fails as
	// on a device that has none.
	Discards bool
}

// LUKSMapping is a mapping as the kernel lists it.
type LUKSMapping struct {
	Volume fsm.VolumeID
	Path   string
	UUID   string // of the header that it was opened with; empty: not known
	Below  Device // Path and Number of the device below; zero: not known
}

// LUKSHeader is what ProbeHeader found. The zero LUKSHeader is a device that was not read.
type LUKSHeader struct {
	Read bool
	// Empty means that where the header would be, everything is zero.
	Empty bool
	UUID  string // empty: there is no header
	Slots []int  // that hold a key, sorted
}

// Passphrase opens a volume. Nothing prints it (S63).
type Passphrase struct{ text string }

// NewPassphrase is the passphrase of that text; an empty one is none.
func NewPassphrase(text string) Passphrase { return Passphrase{text: text} }

// ParsePassphrases makes passphrases of texts, a zero one of each that is empty. Invalid: one is too long.
func ParsePassphrases(texts ...string) ([]Passphrase, error) {
	all := make([]Passphrase, len(texts))
	for i, text := range texts {
		if len(text) > MaxPassphraseBytes {
			return nil, fsm.Reject(fsm.Invalid, "a passphrase has more than %d bytes", MaxPassphraseBytes)
		}
		all[i] = NewPassphrase(text)
	}
	return all, nil
}

// IsZero reports whether none was given.
func (p Passphrase) IsZero() bool { return p.text == "" }

// Reveal returns the text, for the standard input of a command and nothing else.
func (p Passphrase) Reveal() []byte { return []byte(p.text) }

// Format implements fmt.Formatter.
func (Passphrase) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "[passphrase]") }

// MarshalText implements encoding.TextMarshaler.
func (Passphrase) MarshalText() ([]byte, error) { return []byte("[passphrase]"), nil }
