package luks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/fsm"
)

// OpensSlot reports whether the passphrase opens the slot. A slot without a key is opened by none.
func (t *Tool) OpensSlot(ctx context.Context, device string, slot int, key executor.Passphrase) (bool, error) {
	_, err := t.run(ctx, key.Reveal(), args([]string{"open", "--test-passphrase", "--type", "luks2"}, slotFlag(slot), fromStdin, []string{device})...)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, errNoKey), errors.Is(err, errOther):
		return false, nil
	}
	return false, fmt.Errorf("try slot %d of %s: %w", slot, device, err)
}

// AddKey puts a passphrase into a free slot. Both come through the standard input, one after the other.
func (t *Tool) AddKey(ctx context.Context, device string, slot int, known, added executor.Passphrase) error {
	both := append(known.Reveal(), added.Reveal()...)
	_, err := t.run(ctx, both, args([]string{"luksAddKey", "--batch-mode"}, t.derivation, slotFlag(slot), fromStdin,
		[]string{"--keyfile-size", strconv.Itoa(len(known.Reveal())), "--new-keyfile-size", strconv.Itoa(len(added.Reveal())), device, "-"})...)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoKey):
		return fsm.Reject(fsm.Unauthenticated, "the passphrase opens no slot of the header on %s", device)
	}
	return fmt.Errorf("add a key to slot %d of %s: %w", slot, device, err)
}

// KillSlot removes a slot. Cryptsetup removes the last one without a word; so the slots are read first, and the
// passphrase must open another one of them (S64). A slot that is gone is removed already.
func (t *Tool) KillSlot(ctx context.Context, device string, slot int, remaining executor.Passphrase) error {
	slots, err := t.slots(ctx, device)
	if err != nil || !slices.Contains(slots, slot) {
		return err
	}
	others := slices.DeleteFunc(slots, func(s int) bool { return s == slot })
	opens, err := t.opensAny(ctx, device, others, remaining)
	if err != nil {
		return err
	}
	if !opens {
		return fsm.Reject(fsm.Unauthenticated, "slot %d of the header on %s stays: the passphrase opens no other one", slot, device)
	}
	_, err = t.run(ctx, remaining.Reveal(), args([]string{"luksKillSlot", "--batch-mode"}, fromStdin, []string{device, strconv.Itoa(slot)})...)
	if err != nil {
		return fmt.Errorf("remove slot %d of %s: %w", slot, device, err)
	}
	return nil
}

// opensAny reports whether the passphrase opens one of the slots.
func (t *Tool) opensAny(ctx context.Context, device string, slots []int, key executor.Passphrase) (bool, error) {
	for _, slot := range slots {
		if opens, err := t.OpensSlot(ctx, device, slot, key); opens || err != nil {
			return opens, err
		}
	}
	return false, nil
}
