package lvm

import (
	"context"
	"errors"
	"fmt"

	"github.com/holdfast-storage/holdfast/executor"
)

// thinCopy describes a volume or snapshot that is created as a thin snapshot of another.
type thinCopy struct {
	name, from, permission string
	size                   int64           // bytes
	minSize                int64           // bytes that it must hold; 0: as many as the source
	dropTail               executor.Extent // range of the source that reads as zero in the copy
	chunk                  int64           // the pool's, in bytes
}

// copy creates a thin snapshot of a volume or snapshot. When the caller's context ends meanwhile,
// nothing is left.
func (t *thinVolumes) copy(ctx context.Context, c *thinCopy) error {
	err := t.runChange(ctx, "lvcreate", "-s", "-n", c.name, "-ky", c.permission,
		"--addtag", tagOurs, "--addtag", tagFrom+c.from, "--addtag", sizeTag(c.size), t.VG+"/"+c.from)
	if err != nil {
		return t.commandError("create", c.name, err)
	}
	if c.minSize > 0 {
		err = t.extend(ctx, c.name, c.minSize)
	}
	if err == nil && c.dropTail.Length > 0 {
		err = t.zeroTail(ctx, c.name, c.dropTail, c.chunk)
	}
	if err == nil {
		err = ctx.Err() // a snapshot that was cancelled must not appear afterwards
	}
	if err != nil {
		return errors.Join(fmt.Errorf("create %s from %s: %w", c.name, c.from, err), t.lvremove(ctx, c.name))
	}
	return t.markReady(ctx, c.name)
}
