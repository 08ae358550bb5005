package lvm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rateSampleBytes is how much is read to measure the pool's rate, in bytes.
const rateSampleBytes = 16 << 20

// CopyRate returns half the rate at which the pool's data can be read, in bytes a second, as a
// copy reads and writes. LVM pools never copy, and nothing is written to measure it. It is
// measured once.
func (p *Pool) CopyRate(ctx context.Context) (int64, error) {
	p.mu.Lock()
	rate := p.copyRate
	p.mu.Unlock()
	if rate > 0 {
		return rate, nil
	}
	done, _, err := p.lock.recent(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	d, err := p.kernel.device(dmName(p.VG, p.ThinPool+"_tdata"))
	if err != nil || d == nil {
		return 0, errors.Join(err, fmt.Errorf("measure pool %s: its data device is not active", p.name()))
	}
	if rate, err = readRate(d.path()); err != nil {
		return 0, fmt.Errorf("measure pool %s: %w", p.name(), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.copyRate = max(rate/2, 1)
	return p.copyRate, nil
}

// readRate reads the beginning of a device, bypassing the page cache; in bytes a second.
func readRate(path string) (int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECT, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	const aligned = 4096
	buf := make([]byte, 1<<20+aligned)
	buf = buf[aligned-int(uintptr(unsafe.Pointer(&buf[0]))%aligned):][:1<<20] // #nosec G103
	start, read := time.Now(), 0
	for read < rateSampleBytes {
		n, err := f.Read(buf)
		if read += n; err != nil {
			break // the pool may be smaller than the sample
		}
	}
	if read == 0 {
		return 0, fmt.Errorf("nothing of %s can be read", path)
	}
	return int64(float64(read) / max(time.Since(start).Seconds(), 1e-6)), nil
}
