package sim

import (
	"context"
	"fmt"
	"slices"

	spec "github.com/csi-addons/spec/lib/go/encryptionkeyrotation"

	"github.com/holdfast-storage/holdfast/csi/csiconv"
	"github.com/holdfast-storage/holdfast/executor/backendtest"
	"github.com/holdfast-storage/holdfast/fsm"
)

// keys are what the orchestrator knows of the keys of an encrypted claim.
type keys struct {
	present string
	next    string   // a rotation to this one has begun; empty: none has
	all     []string // that there ever were
	learned string   // the volume whose key was tried out
}

// addEncrypted adds the encrypted claims; one of them stays in any case.
func (c *clients) addEncrypted() *claim {
	var all []*claim
	add := func(name, replicas, fsType string, size int64, source *claim, fromSnap bool) *claim {
		one := &claim{s: c.s, name: name, replicas: replicas, fsType: fsType, size: size, source: source, fromSnap: fromSnap}
		first := name + "-key-0"
		one.keys = &keys{present: first, all: []string{first}}
		all = append(all, one)
		return one
	}
	alone := add("crypt", "1", "ext4", 64<<20, nil, false)
	pair := add("crypt-pair", "2", "ext4", 64<<20, nil, false)
	add("crypt-block", "2", "", 32<<20, nil, false)
	add("crypt-clone", "1", "ext4", 64<<20, alone, false)
	add("crypt-restored", "2", "ext4", 64<<20, pair, true)
	c.claims = append(c.claims, all...)
	return all[c.s.tape.pick(len(all))]
}

// secrets are the Secret of the claim: while its key is replaced, both keys, in either order.
func (c *claim) secrets() map[string]string {
	if c.keys == nil {
		return nil
	}
	c.learnKey()
	present, previous := c.keys.present, c.keys.next
	if previous != "" && c.s.tape.pick(2) == 1 {
		present, previous = previous, present
	}
	return map[string]string{csiconv.PassphraseSecret: present, csiconv.PreviousPassphraseSecret: previous}
}

// learnKey tries out which of the keys that there ever were opens a copy, or a volume of which an operator gave up
// writes: its header is of before (S65).
func (c *claim) learnKey() {
	id := fsm.VolumeID(c.id)
	if c.source == nil && !c.s.log.forced[id] || c.keys.learned == c.id && !c.s.log.forced[id] {
		return
	}
	for _, h := range c.s.hosts {
		header, found := h.world.DiskHeader(id)
		if !found || header.Opens(c.keys.present, c.keys.next) {
			continue
		}
		for _, key := range c.knownKeys() {
			if header.Opens(key) {
				c.keys.present, c.keys.next, c.keys.learned = key, "", c.id
			}
		}
	}
}

// knownKeys are all that the claim and its source ever had.
func (c *claim) knownKeys() []string {
	known := c.keys.all
	if c.source != nil {
		known = slices.Concat(known, c.source.keys.all)
	}
	return known
}

// rotate replaces the key of a volume that is staged, until that was answered.
func (u *use) rotate() *csiCall {
	k := u.claim.keys
	if k.next == "" {
		k.next = fmt.Sprintf("%s-key-%d", u.claim.name, len(k.all))
		k.all = append(k.all, k.next)
	}
	return u.replaceKey("rotate-key", k.next, map[string]string{csiconv.PassphraseSecret: k.present})
}

// renew puts the present key into another slot.
func (u *use) renew() *csiCall { return u.replaceKey("renew-key", u.claim.keys.present, nil) }

func (u *use) replaceKey(name, key string, secrets map[string]string) *csiCall {
	id, k := u.claim.id, u.claim.keys
	req := &spec.EncryptionKeyRotateRequest{VolumeId: id, VolumePath: u.stagingPath(), VolumeCapability: u.claim.capability(), EncryptionKey: key, Secrets: secrets}
	if u.claim.fsType == "" {
		req.VolumePath = u.targetPath()
	}
	return u.nodeCall(name, func(ctx context.Context, p *process) error {
		_, err := p.keys.EncryptionKeyRotate(ctx, req)
		return err
	}, func(err error) {
		if err != nil || u.claim.id != id || k.next != key && k.present != key {
			return
		}
		u.claim.s.counts["replaced keys"]++
		u.claim.s.checks.keys.replaced(u, key)
		if k.next == key {
			k.present, k.next = key, ""
		}
	})
}

// opens reports whether one of the keys that the orchestrator has now opens a header.
func (k *keys) opens(h backendtest.WorldHeader) bool { return h.Opens(k.present, k.next) }
