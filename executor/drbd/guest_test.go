package drbd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-storage/holdfast/executor"
	"github.com/holdfast-storage/holdfast/executor/fencepeer"
	"github.com/holdfast-storage/holdfast/fsm"
	"github.com/holdfast-storage/holdfast/fsm/fsmpb"
)

// testVolume is the volume of all tests here.
const testVolume fsm.VolumeID = "hf-0190a0e2-7b1c-7e39-8d55-6f3b2a1c0d01"

// TestStepsInAGuest does the steps that a driver outside names, on one of two guests
// with a kernel that has DRBD, and prints what became of each: jepsen/lab calls it.
func TestStepsInAGuest(t *testing.T) {
	steps := os.Getenv("HOLDFAST_DRBD_STEPS")
	if steps == "" {
		t.Skip("needs a guest with DRBD and a driver: jepsen/lab runs it")
	}
	var res executor.ResourceConfig
	resource := json.NewDecoder(strings.NewReader(os.Getenv("HOLDFAST_DRBD_RESOURCE")))
	resource.DisallowUnknownFields() // the driver does not know the type
	require.NoError(t, resource.Decode(&res))
	r := New(Config{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	for _, step := range strings.Split(steps, ",") {
		began := time.Now()
		out, err := guestStep(t.Context(), r, res, strings.Fields(step))
		fmt.Printf("STEP %s: %s %s (%d ms)\n", step, describeError(err), out, time.Since(began).Milliseconds())
	}
}

func describeError(err error) string {
	var refused *fsm.Rejection
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &refused):
		return fmt.Sprintf("refused %d %s", refused.Reason, refused.Message)
	case errors.Is(err, executor.ErrReplicatorBusy):
		return "busy " + err.Error()
	}
	return "failed " + err.Error()
}

func guestStep(ctx context.Context, r *Replicator, res executor.ResourceConfig, words []string) (out string, err error) {
	id := res.Volume
	simple := map[string]func(context.Context, fsm.VolumeID) error{
		"adjust": r.Adjust, "forget": r.RemoveConfig, "create-md": r.CreateMetadata, "attach": r.Attach, "disconnect": r.Disconnect,
		"new-uuid": r.NewUUID, "secondary": r.SetSecondary, "resume": r.ResumeIO, "invalidate": r.Invalidate, "verify": r.Verify,
		"down": r.Down, "wipe": r.WipeMetadata, "remake-md": r.RemakeMetadata,
	}
	if do, ok := simple[words[0]]; ok {
		return "", do(ctx, id)
	}
	switch words[0] {
	case "configure":
		return "", r.Configure(ctx, res)
	case "check":
		return "", r.Check(ctx)
	case "detach":
		return "", r.Detach(ctx, id, len(words) > 1)
	case "connect":
		return "", r.Connect(ctx, id, len(words) > 1)
	case "primary":
		return "", r.SetPrimary(ctx, id, len(words) > 1)
	case "resize":
		size, err := strconv.ParseInt(words[1], 10, 64)
		if err != nil {
			return "", err
		}
		return "", r.Resize(ctx, id, size, len(words) > 2)
	case "observe":
		m, err := observeTwice(ctx, r, res)
		text, _ := json.Marshal(m)
		return string(text), err
	case "suspended":
		ids, err := r.ListSuspended(ctx)
		return fmt.Sprint(ids), err
	case "known":
		ids, err := r.ListResources(ctx)
		return fmt.Sprint(ids), err
	case "answer":
		return "", answerHandlers(ctx)
	}
	return "", fmt.Errorf("there is no step %q", words[0])
}

// observeTwice observes through the kernel and with the tool, which must agree. It repeats
// this when the state changes between the two.
func observeTwice(ctx context.Context, r *Replicator, res executor.ResourceConfig) (m executor.ResourceStatus, err error) {
	for range 5 {
		if m, err = r.Observe(ctx, res.Volume, res.Minor, res.BackingPath); err != nil || m.Disk <= fsmpb.DiskState_DISK_STATE_FAILED {
			return m, err
		}
		md, failed := r.metadata.queryByTool(ctx, res.Minor)
		if failed == nil && md == (diskMetadata{found: m.HasMetadata, uuid: m.UUID, fresh: m.JustCreated, bitmap: m.BitmapUUID}) {
			return m, nil
		}
		err = errors.Join(failed, fmt.Errorf("the kernel says %v %x %v, and drbdsetup %+v", m.HasMetadata, m.UUID, m.JustCreated, md))
	}
	return m, err
}

// answerHandlers answers the kernel's handlers with what the file /run/verdict says, once
// it says something.
func answerHandlers(ctx context.Context) error {
	s, err := fencepeer.Listen("", func(ctx context.Context, _ fsm.VolumeID) (fsmpb.Verdict, error) {
		text, err := os.ReadFile("/run/verdict")
		if err != nil {
			return 0, err
		}
		return fsmpb.Verdict(fsmpb.Verdict_value["VERDICT_"+strings.TrimSpace(string(text))]), nil
	}, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	return s.Serve(ctx)
}
