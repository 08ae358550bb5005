package hostcheck

import (
	"fmt"
	"strings"
	"time"
)

const (
	// certsEndSoon is how long before its end a certificate is warned of.
	certsEndSoon = 30 * 24 * time.Hour
	// slowWrite and tooSlowWrite are durations of a durable write that nearly all are below. A member stands for
	// election after half a second without its leader.
	slowWrite    = 50 * time.Millisecond
	tooSlowWrite = 250 * time.Millisecond
	// wantedFiles is how many files a process must be able to have open.
	wantedFiles = 4096
	// minFree is what must be free below a data folder, in bytes.
	minFree = 256 << 20
	// maxClockError is how wrong a clock may be by the kernel's own estimate.
	maxClockError = time.Second
)

// identityRemedy is what to do about a data folder without a usable identity.
var identityRemedy = map[Role]string{
	Node:       "put the folder's own files back; if they are lost, begin with an empty folder and run `holdfast nodes replace NODE`",
	Controller: "put the folder's own files back; if they are lost, begin with an empty folder and run `holdfast members replace OLD`",
}

func checkDataDir(f *Facts) (all []Finding) {
	d := f.DataDir
	switch {
	case d == nil:
		return nil // none is named
	case d.Missing:
		return []Finding{okf("the data folder %s is not made yet, which the first start does", d.Path)}
	case d.Mode&0o077 != 0:
		all = append(all, fail("run `chmod 0700 "+d.Path+"`", "the data folder %s has mode %04o, and others than its owner can read it", d.Path, d.Mode))
	}
	switch {
	case d.Err != "":
		all = append(all, fail(identityRemedy[f.Role], "the identity in the data folder %s cannot be used: %s", d.Path, d.Err))
	case d.Identity == "":
		all = append(all, okf("the data folder %s has no identity yet, which the first start gives it", d.Path))
	default:
		all = append(all, okf("the data folder %s is that of %s", d.Path, d.Identity))
	}
	switch {
	case d.LockErr != "":
		all = append(all, unknown("run this as root on the host itself", "whether a process uses the data folder %s could not be found out: %s", d.Path, d.LockErr))
	case d.Holder > 0:
		all = append(all, okf("the data folder %s is in use by process %d", d.Path, d.Holder))
	default:
		all = append(all, okf("no process that can be seen here uses the data folder %s", d.Path))
	}
	return all
}

func checkDisk(f *Facts) []Finding {
	l := f.Disk
	if l == nil {
		return nil // there is no folder yet
	}
	if l.Err != "" {
		return []Finding{fail("look at the filesystem of the data folder, and into the kernel's log (dmesg)", "a durable write below the data folder failed after %d: %s", l.Writes, l.Err)}
	}
	figures := l.figures("below the data folder")
	switch {
	case l.P99 >= tooSlowWrite && f.Role == Controller:
		return []Finding{fail(fasterDisk, "the disk is too slow for a controller, which may lose leadership: %s", figures).with(l.Buckets)}
	case l.P99 >= slowWrite:
		return []Finding{warn(fasterDisk, "the disk is slow: %s", figures).with(l.Buckets)}
	}
	return []Finding{okf("%s", figures).with(l.Buckets)}
}

const fasterDisk = "put the data folder on a disk of its own, of flash with protection against power loss"

func (l Latency) figures(where string) string {
	return fmt.Sprintf("half of %d durable writes %s took %s or less, 99 %% %s or less, the longest %s",
		l.Writes, where, short(l.P50), short(l.P99), short(l.Max))
}

// short is a duration with as many digits as matter.
func short(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

func checkSpaces(f *Facts) (all []Finding) {
	for _, s := range f.Spaces {
		all = append(all, s.check()...)
	}
	return all
}

func (s Space) check() (all []Finding) {
	if s.Err != "" {
		return []Finding{unknown("see whether it is mounted", "how much is free in %s could not be read: %s", s.Path, s.Err)}
	}
	const remedy = "remove what is not Holdfast's from it, or make it larger"
	percent := s.Free * 100 / max(1, s.Total)
	switch {
	case s.Free < minFree && percent < 10 || s.Free == 0:
		all = append(all, fail(remedy, "only %s are free in %s", bytesText(s.Free), s.Path))
	case percent < 10:
		all = append(all, warn(remedy, "only %s, %d %%, are free in %s", bytesText(s.Free), percent, s.Path))
	default:
		all = append(all, okf("%s are free in %s", bytesText(s.Free), s.Path))
	}
	switch {
	case s.Inodes == 0:
	case s.FreeInodes == 0:
		all = append(all, fail(remedy, "the filesystem of %s has no inode left", s.Path))
	case s.FreeInodes*20 < s.Inodes:
		all = append(all, warn(remedy, "the filesystem of %s has only %d of %d inodes left", s.Path, s.FreeInodes, s.Inodes))
	}
	return all
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
	value, unit := float64(n), 0
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + " " + units[unit]
}

func checkCerts(f *Facts) (all []Finding) {
	for _, c := range f.Certs {
		all = append(all, c.check(f.At)...)
	}
	return all
}

func (c Cert) check(now time.Time) (all []Finding) {
	if c.Err != "" {
		return []Finding{fail("issue it again with `holdfast ca issue`", "the %s %s cannot be used: %s", c.Kind, c.Path, c.Err)}
	}
	if c.Mounted {
		if c.Mode&0o037 != 0 {
			all = append(all, fail("mount the Secret with `defaultMode: 0400`", "the %s %s has mode %04o, and is refused", c.Kind, c.Path, c.Mode))
		}
		return append(all, c.checkEnd(now)...)
	}
	if c.Mode&0o077 != 0 {
		all = append(all, fail("run `chmod 600 "+c.Path+"`", "the %s %s has mode %04o, and is refused", c.Kind, c.Path, c.Mode))
	}
	if c.DirMode&0o077 != 0 {
		all = append(all, fail("run `chmod 700` on that folder", "the folder of the %s %s has mode %04o, and what is in it is refused", c.Kind, c.Path, c.DirMode))
	}
	return append(all, c.checkEnd(now)...)
}

// checkEnd judges until when a certificate is good; a key has no end.
func (c Cert) checkEnd(now time.Time) (all []Finding) {
	if c.NotAfter.IsZero() {
		return nil
	}
	remedy := "issue it again with `holdfast ca issue`; the process reads it without a restart"
	if c.Kind == "CA" {
		remedy = "make a CA with `holdfast ca make`, and issue every certificate again"
	}
	end := c.NotAfter.UTC().Format(time.RFC3339)
	switch left := c.NotAfter.Sub(now); {
	case left <= 0:
		all = append(all, fail(remedy, "the %s %s ended at %s", c.Kind, c.Path, end))
	case left < certsEndSoon:
		all = append(all, warn(remedy, "the %s %s ends at %s, in %d days", c.Kind, c.Path, end, int(left.Hours()/24)))
	default:
		all = append(all, okf("the %s %s is good until %s", c.Kind, c.Path, end))
	}
	return all
}

func checkClock(f *Facts) (all []Finding) {
	c := f.Clock
	const remedy = "run a daemon that sets the clock: `apt-get install chrony`"
	by := ""
	if c != nil && c.Daemon != "" {
		by = ", by " + c.Daemon
	}
	switch {
	case c == nil:
		return notGathered("whether the clock is set")
	case c.Err != "":
		return []Finding{unknown(remedy, "whether the clock is set could not be read: %s", c.Err)}
	case c.Synchronised && c.MaxError > maxClockError:
		return []Finding{warn("see what the daemon that sets the clock says: `chronyc tracking` or `timedatectl timesync-status`", "the clock is set%s, and may be wrong by %s", by, short(c.MaxError))}
	case c.Synchronised:
		return []Finding{okf("the clock is set%s", by)}
	case c.Daemon != "":
		return []Finding{warn("see what it says: `chronyc tracking` or `timedatectl timesync-status`", "%s runs, and has not set the clock", c.Daemon)}
	}
	return []Finding{warn(remedy, "nothing sets this host's clock")}
}

func checkLimits(f *Facts) []Finding {
	l := f.Limits
	who := "a process that is started from here"
	if l != nil && l.PID > 0 {
		who = fmt.Sprintf("process %d", l.PID)
	}
	switch {
	case l == nil:
		return notGathered("how many files may be open")
	case l.Err != "":
		return []Finding{unknown("look at /proc/self/limits", "how many files may be open could not be read: %s", l.Err)}
	case l.Files < wantedFiles:
		return []Finding{warn("set LimitNOFILE=65536 in the unit, or `ulimit -n 65536`", "%s may open %d files only, and %d are wanted", who, l.Files, wantedFiles)}
	}
	return []Finding{okf("%s may open %d files", who, l.Files)}
}

// checkReached: one controller that is not reached is no error, as long as another one is.
func checkReached(f *Facts) (all []Finding) {
	finding := fail
	for _, r := range f.Reached {
		if r.Err == "" {
			finding = warn
		}
	}
	for _, r := range f.Reached {
		if r.Err == "" {
			all = append(all, okf("the controller at %s was reached in %s", r.Address, short(r.Took)))
			continue
		}
		all = append(all, finding("see whether it runs, and whether a firewall is between the two", "the controller at %s is not reached from here: %s", r.Address, r.Err))
	}
	return all
}

// poolNearlyFull and poolFull are percents of a thin pool's data or metadata: from the second on it takes nothing new.
const (
	poolNearlyFull     = 80
	poolFull           = 95
	metadataNearlyFull = 60
	metadataFull       = 80
)

func checkThinPools(f *Facts) (all []Finding) {
	for _, p := range f.ThinPools {
		all = append(all, p.check()...)
	}
	return all
}

func (p ThinPool) check() []Finding {
	name := p.VG + "/" + p.Name
	switch {
	case p.Err != "":
		return []Finding{unknown("run `lvs "+p.VG+"`", "the thin pool %s could not be looked at: %s", name, p.Err)}
	case p.NoVG:
		return []Finding{fail("make it with `vgcreate "+p.VG+" DEVICE`", "there is no volume group %s for the thin pool %s", p.VG, name)}
	case p.NoPool:
		return []Finding{okf("the thin pool %s is not made yet, which the first start does", name)}
	case !p.Checked:
		return []Finding{unknown("run `lvs "+p.VG+"`", "how full the thin pool %s is could not be read", name)}
	case p.Data >= poolFull || p.Meta >= metadataFull:
		return []Finding{fail("run `lvextend` for its data, or for its metadata with --poolmetadatasize", "the thin pool %s takes nothing new: its data is used to %.0f %%, its metadata to %.0f %%", name, p.Data, p.Meta)}
	case p.Data >= poolNearlyFull || p.Meta >= metadataNearlyFull:
		return []Finding{warn("run `lvextend` for its data, or for its metadata with --poolmetadatasize", "the thin pool %s is nearly full: its data is used to %.0f %%, its metadata to %.0f %%", name, p.Data, p.Meta)}
	}
	return []Finding{okf("the thin pool %s is used to %.0f %%, its metadata to %.0f %%", name, p.Data, p.Meta)}
}
