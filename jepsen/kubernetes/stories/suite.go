package stories

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-storage/holdfast/jepsen/kubernetes/story"
)

var suite = story.Story{
	Name: "upstream-suite", Tells: "Kubernetes' own tests of external storage drivers", Limit: 6 * time.Hour, Tell: tellSuite, Needs: suiteBuilt,
}

func suiteProgram(t *story.Teller) string { return t.Cluster.Program("e2e.test", t.Cluster.Version) }

func suiteBuilt(_ context.Context, t *story.Teller) error {
	_, err := os.Stat(suiteProgram(t))
	return err
}

// testDriver describes the driver to the suite, which does not notice a key that it does not know.
const testDriver = `StorageClass: {FromFile: %[1]s/storageclass.yaml}
SnapshotClass: {FromFile: %[1]s/snapshotclass.yaml}
VolumeAttributesClass: {FromFile: %[1]s/attributesclass.yaml}
GroupSnapshotClass: {FromFile: %[1]s/groupclass.yaml}
DriverInfo:
  Name: csi.holdfast.storage
  SupportedSizeRange: {Min: 320Mi}
  SupportedFsType: {ext4: {}, xfs: {}}
  SupportedMountOption: {dirsync: {}}
  TopologyKeys: [topology.holdfast.storage/node]
  Capabilities:
    persistence: true
    block: true
    fsGroup: true
    exec: true
    multipods: true
    multiplePVsSameID: true
    singleNodeVolume: true
    topology: true
    capacity: true
    controllerExpansion: true
    nodeExpansion: true
    snapshotDataSource: true
    groupSnapshot: true
    pvcDataSource: true
    readWriteOncePod: true
`

// class is the manifest of a class of the suite; what it begins with tells the suite that it is not JSON.
func class(api, kind, fields string) string {
	return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: suite}\n%s\n", api, kind, fields)
}

// suiteClasses are what the suite makes its objects of. Its tests of one filesystem name it; all others have XFS: the kernel grows an
// ext4 that is in use only for CAP_SYS_RESOURCE, which not every host lets its root have.
var suiteClasses = map[string]string{
	"storageclass.yaml": class("storage.k8s.io/v1", "StorageClass",
		"provisioner: "+driver+"\nvolumeBindingMode: WaitForFirstConsumer\nallowVolumeExpansion: true\nparameters: {csi.storage.k8s.io/fstype: xfs}"),
	"attributesclass.yaml": class("storage.k8s.io/v1", "VolumeAttributesClass", "driverName: "+driver+"\nparameters: {iopsLimit: \"5000\"}"),
	"snapshotclass.yaml":   class("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "driver: "+driver+"\ndeletionPolicy: Delete"),
	"groupclass.yaml":      class("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshotClass", "driver: "+driver+"\ndeletionPolicy: Delete"),
}

func tellSuite(ctx context.Context, t *story.Teller) error {
	description, err := describeDriver(t)
	if err != nil {
		return err
	}
	reports := filepath.Join(t.Settings.Reports, "upstream-suite-"+t.Cluster.Version)
	junit := filepath.Join(reports, "junit_01.xml")
	if err := errors.Join(os.MkdirAll(reports, 0o755), removeFile(junit)); err != nil {
		return err
	}
	failed := runSuite(ctx, t, description, reports)
	tests, err := readSuite(junit)
	if err != nil {
		return errors.Join(failed, err)
	}
	results, err := writeSuite(reports+".md", "Kubernetes' own storage tests, "+t.Cluster.Version, tests)
	t.Note("%s; which tests, and why others did not run: %s", counts(results), filepath.Base(reports)+".md")
	if ran := len(tests) - results["skipped"]; ran == 0 && failed == nil {
		err = errors.Join(err, errors.New("no test ran"))
	}
	return errors.Join(failed, err)
}

// describeDriver writes what the suite is to know of the driver, beside a link to the suite, and returns the file.
func describeDriver(t *story.Teller) (string, error) {
	dir := suiteDir(t)
	program, err := filepath.Abs(suiteProgram(t))
	err = errors.Join(err, os.MkdirAll(dir, 0o755), removeFile(suiteLink(t)), os.Symlink(program, suiteLink(t)))
	for name, content := range suiteClasses {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	description := filepath.Join(dir, "driver.yaml")
	return description, errors.Join(err, os.WriteFile(description, fmt.Appendf(nil, testDriver, dir), 0o644))
}

func runSuite(ctx context.Context, t *story.Teller, description, reports string) error {
	log, err := os.Create(reports + ".log")
	if err != nil {
		return err
	}
	defer log.Close()
	args := append(suiteRunner(t), "--kubeconfig="+t.Cluster.Kubeconfig("admin"), "--provider=local", "--storage.testdriver="+description,
		"--report-dir="+reports, "--kubectl-path="+t.Cluster.Program("kubectl", t.Cluster.Version))
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	// Interrupted, it still writes its report.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 2 * time.Minute
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the suite failed, see %s: %w", log.Name(), err)
	}
	return nil
}

// suiteProcesses is how many tests of the suite run at once; they mostly wait. One that must be alone is, after the others.
const suiteProcesses = "6"

// ginkgos are the versions of the runner, by those of Kubernetes, whose suite was written for them.
var ginkgos = map[string]string{"v1.37.2": "v2.32.0", "v1.36.3": "v2.28.1"}

// suiteRunner is the command before the suite's own flags: by the runner several tests at once, or the suite itself one after the other.
func suiteRunner(t *story.Teller) []string {
	var skip []string
	for _, l := range leftOut {
		skip = append(skip, l.Word)
	}
	chosen := []string{"focus=" + suiteFocus(t), "skip=" + strings.Join(skip, "|"), "no-color", "timeout=6h"}
	runner := t.Cluster.Program("ginkgo", ginkgos[t.Cluster.Version])
	if _, err := os.Stat(runner); err != nil {
		return append([]string{suiteProgram(t)}, prefixed("--ginkgo.", chosen)...)
	}
	return slices.Concat([]string{runner, "run", "--procs=" + suiteProcesses}, prefixed("--", chosen), []string{suiteLink(t), "--"})
}

// suiteLink leads to the suite, by a name that the runner takes for one.
func suiteLink(t *story.Teller) string { return filepath.Join(suiteDir(t), "e2e.test") }

func suiteDir(t *story.Teller) string { return filepath.Join(t.Cluster.Dir, "suite") }

func prefixed(prefix string, flags []string) []string {
	all := make([]string, len(flags))
	for i, f := range flags {
		all[i] = prefix + f
	}
	return all
}

// suiteFocus selects tests of the driver only, and of these what the flag says.
func suiteFocus(t *story.Teller) string {
	if t.Settings.SuiteFocus == "" {
		return "External.Storage"
	}
	return "External.Storage.*(" + t.Settings.SuiteFocus + ")"
}

// removeFile removes a file that may be there from a run before.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
