package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	pathSize = 256 * mi
	// fioTime is short, so that what else the machine does hits neighbours alike.
	fioTime = time.Second
)

// measurePath compares a raw volume of two replicas with DRBD that was set up by hand: in
// the same guests, on the same pools, with the options of the volume's own file.
func measurePath(t *testing.T, w *env, found *table) {
	v := w.replicatedOf(t, "path", pathSize, true)
	w.publishAndStage(t, v, "n1")
	devices := []string{v.target(), w.createBareDRBD(t, v)}
	for _, d := range devices { // a thin pool gives out blocks as they are written
		w.mustExec(t, "n1", fmt.Sprintf("dd if=/dev/zero of=%s bs=1M count=%d oflag=direct 2>/dev/null", d, pathSize/mi))
	}
	for _, depth := range []int{1, 16} {
		w.compare(t, found, pair{"a volume", "bare DRBD"}, devices, depth)
	}
	w.unstageAndUnpublish(t, v, "n1")
}

// pair are the names of what is compared: a volume, and the same without Holdfast.
type pair struct{ volume, bare string }

// compare runs a volume, bare DRBD or the like twice and the volume again, and takes the ratio of the
// sums: what the machine does beside is in both, and so is what an order of runs does. What
// the bare device makes of itself is the noise.
func (w *env) compare(t *testing.T, found *table, of pair, devices []string, depth int) {
	t.Helper()
	name := fmt.Sprintf("4 KiB random writes, %d at once: ", depth)
	for range 2 * *samples {
		var runs [2][]fioResult
		for _, which := range []int{0, 1, 1, 0} {
			runs[which] = append(runs[which], w.fio(t, "n1", devices[which], depth))
		}
		volume, bare := sum(runs[0]), sum(runs[1])
		found.row(name+of.volume, "IOPS").add(volume.iops / 2)
		found.row(name+of.bare, "IOPS").add(bare.iops / 2)
		found.row(name+of.volume+" / "+of.bare, "x").around(1).add(volume.iops / bare.iops)
		found.row(name+of.bare+" / its next run", "x").add(runs[1][0].iops / runs[1][1].iops)
		found.row(name+"mean latency, "+of.volume, "ms").add(volume.mean / 2)
		found.row(name+"mean latency, "+of.bare, "ms").add(bare.mean / 2)
		found.row(name+"mean latency, "+of.volume+" / "+of.bare, "x").around(1).add(volume.mean / bare.mean)
	}
}

func sum(runs []fioResult) fioResult {
	var all fioResult
	for _, r := range runs {
		all.iops, all.mean = all.iops+r.iops, all.mean+r.mean
	}
	return all
}

// makeBare makes DRBD by hand beside a volume: %[1]s is the volume's id, %[2]d bytes.
const makeBare = `set -e
bytes=$(lvs --noheadings --units b --nosuffix -o lv_size vg/%[1]s | tr -d ' ')
lvcreate -qq -y -V ${bytes}b -T vg/pool -n bare
sed -e 's/%[1]s/bare/g' -e 's#disk  *"[^"]*";#disk "/dev/mapper/vg-bare";#' -e 's#/dev/drbd[0-9]*#/dev/drbd900#' -e 's/minor  *[0-9]*/minor 900/' \
 -e 's#\(address [^;]*\):[0-9]*;#\1:7999;#' $(ls /etc/drbd.d/*%[1]s*.res) >/etc/drbd.d/bare.res
drbdadm create-md --force bare </dev/null >/dev/null
drbdadm up bare`

// createBareDRBD makes it on both hosts and makes the first primary; it answers the device.
func (w *env) createBareDRBD(t *testing.T, v *volume) string {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, w.removeBareDRBD(context.WithoutCancel(t.Context()))) })
	for _, n := range []string{"n1", "n2"} {
		w.mustExec(t, n, fmt.Sprintf(makeBare, v.id))
	}
	w.awaitBareDRBD(t, "Connected", "Inconsistent/Inconsistent")
	w.mustExec(t, "n1", "drbdadm -- --clear-bitmap new-current-uuid bare && drbdadm primary bare")
	w.awaitBareDRBD(t, "Connected", "UpToDate/UpToDate")
	return "/dev/drbd900"
}

func (w *env) awaitBareDRBD(t *testing.T, connection, disks string) {
	t.Helper()
	eventually(t, timeout, "bare DRBD is "+connection+" "+disks, func(ctx context.Context) error {
		out, _, err := w.guest("n1").Exec(ctx, "grep '^ *900: ' /proc/drbd")
		if err == nil && !(strings.Contains(out, "cs:"+connection) && strings.Contains(out, "ds:"+disks)) {
			err = fmt.Errorf("it is %s", strings.TrimSpace(out))
		}
		return err
	})
}

// removeBareDRBD removes it, if it is there: while a wrong file is there, drbdadm reads none.
func (w *env) removeBareDRBD(ctx context.Context) error {
	var failed error
	for _, n := range []string{"n1", "n2"} {
		failed = errors.Join(failed, run(ctx, w.guest(n), "drbdsetup secondary bare; drbdsetup down bare; rm -f /etc/drbd.d/bare.res; ! lvs vg/bare >/dev/null 2>&1 || lvremove -qq -y vg/bare"))
	}
	return failed
}

// fioResult is what one run of fio measured.
type fioResult struct {
	iops, mean float64 // the mean latency in milliseconds
}

func (w *env) fio(t *testing.T, node, path string, depth int) fioResult {
	t.Helper()
	out := w.mustExec(t, node, fmt.Sprintf("fio --name=path --filename=%s --rw=randwrite --bs=4k --direct=1 --ioengine=libaio --iodepth=%d --thread"+
		" --size=%d --runtime=%d --ramp_time=300ms --time_based --randrepeat=0 --norandommap --output-format=json 2>/dev/null", path, depth, pathSize, int(fioTime.Seconds())))
	var said struct {
		Jobs []struct {
			Write struct {
				IOPS float64 `json:"iops"`
				Lat  struct {
					Mean float64 `json:"mean"`
				} `json:"lat_ns"`
			} `json:"write"`
		} `json:"jobs"`
	}
	require.NoError(t, json.Unmarshal([]byte(out[max(0, strings.Index(out, "{")):]), &said), out)
	require.Len(t, said.Jobs, 1)
	require.Positive(t, said.Jobs[0].Write.IOPS)
	return fioResult{iops: said.Jobs[0].Write.IOPS, mean: said.Jobs[0].Write.Lat.Mean / 1e6}
}
