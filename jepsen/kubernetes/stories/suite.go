package stories

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

var suiteClasses = map[string]string{
	"storageclass.yaml":    class("storage.k8s.io/v1", "StorageClass", "provisioner: "+driver+"\nvolumeBindingMode: WaitForFirstConsumer\nallowVolumeExpansion: true"),
	"attributesclass.yaml": class("storage.k8s.io/v1", "VolumeAttributesClass", "driverName: "+driver+"\nparameters: {iopsLimit: \"5000\"}"),
	"snapshotclass.yaml":   class("snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "driver: "+driver+"\ndeletionPolicy: Delete"),
	"groupclass.yaml":      class("groupsnapshot.storage.k8s.io/v1", "VolumeGroupSnapshotClass", "driver: "+driver+"\ndeletionPolicy: Delete"),
}

var suiteEnd = regexp.MustCompile(`Ran (\d+) of \d+ Specs.*|\d+ Passed.*`)

func tellSuite(ctx context.Context, t *story.Teller) error {
	dir := filepath.Join(t.Cluster.Dir, "suite")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range suiteClasses {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	description := filepath.Join(dir, "driver.yaml")
	if err := os.WriteFile(description, fmt.Appendf(nil, testDriver, dir), 0o644); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(t.Settings.Reports, "upstream-suite-"+t.Cluster.Version+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, suiteProgram(t), "--kubeconfig="+t.Cluster.Kubeconfig("admin"), "--provider=local",
		"--storage.testdriver="+description, "--ginkgo.focus=External.Storage", "--ginkgo.skip=Disruptive|SELinux|SnapshotMetadata", "--ginkgo.no-color",
		"--report-dir="+t.Settings.Reports, "--kubectl-path="+t.Cluster.Program("kubectl", t.Cluster.Version))
	cmd.Stdout, cmd.Stderr = log, log
	failed := cmd.Run()
	said, err := os.ReadFile(log.Name())
	if err != nil {
		return err
	}
	for _, line := range suiteEnd.FindAll(said, -1) {
		t.Note("%s", line)
	}
	if failed != nil {
		return fmt.Errorf("the suite failed, see %s: %w", log.Name(), failed)
	}
	return nil
}
