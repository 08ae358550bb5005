package loop

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/apitest"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

// realEnv is a real API server, with those of Kubernetes' controllers that a test names.
type realEnv struct {
	t      *testing.T
	config *rest.Config
	kube   kubernetes.Interface
	log    *logs
	said   *events.FakeRecorder
}

// patience bounds what a busy machine may take.
const patience = 2 * time.Minute

func newRealEnv(t *testing.T, controllers string) *realEnv {
	config := apitest.Start(t)
	e := &realEnv{t: t, config: config, kube: apitest.Client(t, config), said: events.NewFakeRecorder(1000)}
	e.log = &logs{t: t, writes: &writes{}, index: 70, state: map[string]*adminpb.OutOfServiceResponse{}, check: func() {}}
	_, err := e.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "holdfast"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = e.kube.RbacV1().Roles("holdfast").Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: plan.GuardOwnerRole}}, metav1.CreateOptions{})
	require.NoError(t, err)
	if controllers != "" {
		runControllers(t, config, controllers)
	}
	return e
}

// runControllers runs Kubernetes' own controllers until the test ends.
func runControllers(t *testing.T, config *rest.Config, names string) {
	programs, _ := filepath.Glob(filepath.Join(os.Getenv(apitest.BinariesEnv), "kube-controller-manager-v*"))
	if len(programs) == 0 {
		t.Skipf("there is no kube-controller-manager-VERSION in %s=%s", apitest.BinariesEnv, os.Getenv(apitest.BinariesEnv))
	}
	dir := t.TempDir()
	kubeconfig := writeKubeconfig(t, dir, config)
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	cmd := exec.Command(programs[len(programs)-1], "--kubeconfig", kubeconfig, "--controllers", names, "--leader-elect=false", "--secure-port=0",
		"--cert-dir", dir, "--pvclaimbinder-sync-period=1s")
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = log, log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			content, _ := os.ReadFile(log.Name())
			t.Logf("%s", content[max(0, len(content)-3000):])
		}
		_ = log.Close()
	})
}

// writeKubeconfig writes who may do everything at the server, and returns the file.
func writeKubeconfig(t *testing.T, dir string, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(dir, "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: %q, insecure-skip-tls-verify: true}}]\n"+
		"users: [{name: a, user: {token: %q}}]\ncontexts: [{name: a, context: {cluster: a, user: a}}]\n", config.Host, config.BearerToken)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func (e *realEnv) loop() *Loop {
	metrics := NewMetrics(prometheus.NewRegistry())
	return New(Config{
		Kube: e.kube, Log: e.log, Metrics: metrics, Notifier: NewNotifier(e.said, metrics), Logger: slog.New(slog.DiscardHandler),
		Kubelets: &Kubelets{}, Guard: plan.Guard{Namespace: "holdfast", Image: "holdfast:1"}, Namespace: "holdfast", ControllerSelector: "app=controller",
	})
}

// eventually looks until it holds.
func (e *realEnv) eventually(what string, holds func() bool) {
	e.t.Helper()
	require.Eventually(e.t, holds, patience, 200*time.Millisecond, what)
}

func (e *realEnv) makeNode() *corev1.Node {
	n, err := e.kube.CoreV1().Nodes().Create(e.t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	require.NoError(e.t, err)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	n, err = e.kube.CoreV1().Nodes().UpdateStatus(e.t.Context(), n, metav1.UpdateOptions{})
	require.NoError(e.t, err)
	return n
}

// S172: with the real API server and the real binder the claim is bound to its volume again, which is where the log has it.
func TestS172_ARealAPIServerTakesIt(t *testing.T) {
	e := newRealEnv(t, "persistentvolume-binder-controller,persistentvolume-protection-controller")
	pv, claim := boundVolume()
	claim.UID, claim.Status = "", corev1.PersistentVolumeClaimStatus{}
	class := "fast"
	claim.Spec.StorageClassName, claim.Spec.AccessModes = &class, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	claim.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	claim, err := e.kube.CoreV1().PersistentVolumeClaims("default").Create(t.Context(), claim, metav1.CreateOptions{})
	require.NoError(t, err)
	pv.UID, pv.Status, pv.Spec.ClaimRef.UID = "", corev1.PersistentVolumeStatus{}, claim.UID
	pv.Spec.Capacity, pv.Spec.AccessModes = claim.Spec.Resources.Requests, claim.Spec.AccessModes
	pv, err = e.kube.CoreV1().PersistentVolumes().Create(t.Context(), pv, metav1.CreateOptions{})
	require.NoError(t, err)
	bound := func() bool {
		c, err := e.kube.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "data", metav1.GetOptions{})
		v, err2 := e.kube.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-1", metav1.GetOptions{})
		return err == nil && err2 == nil && c.Status.Phase == corev1.ClaimBound && v.Status.Phase == corev1.VolumeBound
	}
	e.eventually("it is bound", bound)
	e.log.nodes = []*adminpb.Node{{Id: "n2"}, {Id: "n3"}}
	e.log.volumes = []*adminpb.Volume{{Id: "hf-1", Phase: "ready", Replicas: []*adminpb.Replica{{Node: "n2", State: "present", UpToDate: true}, {Node: "n3", State: "present", UpToDate: true}}}}
	l := e.loop()
	e.eventually("it is done", func() bool {
		require.NoError(t, l.Sync(t.Context()))
		maps, err := e.kube.CoreV1().ConfigMaps("holdfast").List(t.Context(), metav1.ListOptions{LabelSelector: plan.LabelSavedVolume})
		require.NoError(t, err)
		now, err := e.kube.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-1", metav1.GetOptions{})
		return err == nil && now.UID != pv.UID && len(maps.Items) == 0 && bound()
	})
	require.True(t, l.affinity.immutable, "this API server refuses to change it")
	now, err := e.kube.CoreV1().PersistentVolumes().Get(t.Context(), "pvc-1", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, terms("n2", "n3"), now.Spec.NodeAffinity.Required.NodeSelectorTerms)
	require.Equal(t, corev1.PersistentVolumeReclaimDelete, now.Spec.PersistentVolumeReclaimPolicy)
	require.Equal(t, claim.UID, now.Spec.ClaimRef.UID)
	require.Empty(t, now.Annotations[plan.AnnotationReclaimPolicy])
	require.Contains(t, now.Finalizers, "kubernetes.io/pv-protection")
}

// S170: a taint that was decided on before the node returned is refused, whichever loop set it; the real API server takes the taint and
// its end.
func TestS170_AStaleTaintIsRefused(t *testing.T) {
	e := newRealEnv(t, "")
	n := e.makeNode()
	e.log.state["n1"] = &adminpb.OutOfServiceResponse{Node: "n1", HostId: "host-1", State: "unreachable"}
	e.log.severed = true
	attachment := attachedTo("n1", plan.Driver)
	made, err := e.kube.StorageV1().VolumeAttachments().Create(t.Context(), attachment, metav1.CreateOptions{})
	require.NoError(t, err)
	made.Status.Attached = true
	_, err = e.kube.StorageV1().VolumeAttachments().UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	slow, l := e.loop().failover, e.loop()
	require.NoError(t, e.log.SetOutOfService(t.Context(), &adminpb.SetOutOfServiceRequest{Node: "n1", HostId: "host-1"}))
	stale, err := slow.readNode(t.Context(), "n1")
	require.NoError(t, err)
	require.Equal(t, plan.FailoverTaint, plan.NextFailover(*stale).Kind)
	e.log.back("n1")
	require.NoError(t, e.kube.StorageV1().VolumeAttachments().Delete(t.Context(), attachment.Name, metav1.DeleteOptions{}))
	l.nodes.seen.Store(&map[string]*adminpb.Node{"n1": {OutOfService: 71}})
	require.NoError(t, l.SyncNodes(t.Context()))
	require.Zero(t, e.log.state["n1"].GetSince(), "it serves again")
	require.True(t, apierrors.IsConflict(slow.taint(t.Context(), stale)))
	e.log.state["n1"].State = "unreachable"
	made, err = e.kube.StorageV1().VolumeAttachments().Create(t.Context(), attachedTo("n1", plan.Driver), metav1.CreateOptions{})
	require.NoError(t, err)
	made.Status.Attached = true
	_, err = e.kube.StorageV1().VolumeAttachments().UpdateStatus(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, l.SyncNodes(t.Context()))
	n, err = e.kube.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.True(t, (&env{}).isTainted(n))
	require.NoError(t, e.kube.StorageV1().VolumeAttachments().Delete(t.Context(), made.Name, metav1.DeleteOptions{}))
	e.log.back("n1")
	require.NoError(t, l.SyncNodes(t.Context()))
	n, err = e.kube.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.False(t, (&env{}).isTainted(n))
}

// One loop leads at a time, and the next one at once when it ends.
func TestOneLoopLeads(t *testing.T) {
	e := newRealEnv(t, "")
	leads := make(chan string, 10)
	begin := func(name string) context.CancelFunc {
		ctx, cancel := context.WithCancel(t.Context())
		election := Election{Kube: e.kube, Namespace: "holdfast", Identity: name, Logger: slog.New(slog.DiscardHandler), Metrics: NewMetrics(prometheus.NewRegistry()),
			Duration: time.Hour, Deadline: 30 * time.Minute, Retry: 200 * time.Millisecond}
		ended := make(chan error, 1)
		go func() { ended <- election.Lead(ctx, func(ctx context.Context) { leads <- name; <-ctx.Done() }) }()
		t.Cleanup(func() { cancel(); require.NoError(t, <-ended) })
		return cancel
	}
	end := begin("a")
	require.Equal(t, "a", <-leads)
	begin("b")
	require.Never(t, func() bool { return len(leads) > 0 }, time.Second, 100*time.Millisecond)
	end() // it releases the Lease, which is good for an hour
	require.Equal(t, "b", <-leads)
	lease, err := e.kube.CoordinationV1().Leases("holdfast").Get(t.Context(), LeaseName, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "b", *lease.Spec.HolderIdentity)
}

// S172: a loop that was late, after another one went on, neither overwrites nor removes what that one saved.
func TestS172_ALateLoopLeavesWhatIsSaved(t *testing.T) {
	e := newRealEnv(t, "")
	l, ctx := e.loop().affinity, t.Context()
	pv, _ := boundVolume()
	require.NoError(t, l.saveVolume(ctx, pv, ""))
	_, late, err := l.savedVolume(ctx, pv.Name)
	require.NoError(t, err)
	pv.Labels = map[string]string{"saved": "again"}
	require.NoError(t, l.saveVolume(ctx, pv, late))
	for _, version := range []string{late, ""} {
		require.Error(t, l.saveVolume(ctx, pv, version))
	}
	f := &plan.VolumeFacts{PV: pv, SavedVersion: late}
	require.Error(t, l.doAffinity(ctx, f, plan.Affinity{Kind: plan.AffinityForget}))
	saved, version, err := l.savedVolume(ctx, pv.Name)
	require.NoError(t, err)
	require.Equal(t, "again", saved.Labels["saved"])
	f.SavedVersion = version
	for range 2 {
		require.NoError(t, l.doAffinity(ctx, f, plan.Affinity{Kind: plan.AffinityForget}))
	}
}
