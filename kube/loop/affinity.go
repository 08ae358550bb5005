package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast-storage/holdfast/admin/adminpb"
	"github.com/holdfast-storage/holdfast/kube/plan"
)

// maxAffinitySteps bounds what is done of one volume before the others are looked at: it is more than making one anew takes.
const maxAffinitySteps = 12

// affinityReconciler keeps the node affinity of persistent volumes at where the log has their replicas.
type affinityReconciler struct {
	Kube      kubernetes.Interface
	Notifier  *Notifier
	Metrics   *Metrics
	Logger    *slog.Logger
	Namespace string          // of what is saved of volumes
	elsewhere map[string]bool // hosts of other sites than that of this Kubernetes
	immutable bool            // the API server does not let a volume's node affinity be changed
}

// sync brings the node affinity of persistent volumes to where the log has their replicas. known are the log's nodes.
func (r *affinityReconciler) sync(ctx context.Context, volumes []*adminpb.Volume, known map[string]*adminpb.Node, c *cluster) error {
	r.elsewhere = plan.HostsElsewhere(known, c.nodes)
	wanted := map[string][]corev1.NodeSelectorTerm{}
	for _, v := range volumes {
		if terms := plan.WantedTerms(v, known, r.elsewhere); terms != nil {
			wanted[v.GetId()] = terms
		}
	}
	saved, unreadable, err := r.savedVolumes(ctx)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for name := range saved {
		names[name] = true
	}
	for i := range c.pvs {
		f := plan.VolumeFacts{PV: &c.pvs[i], Want: wanted[c.pvs[i].Spec.CSI.VolumeHandle], Elsewhere: r.elsewhere, Immutable: r.immutable}
		if plan.NextAffinity(f).Kind != plan.AffinityNone {
			names[c.pvs[i].Name] = true
		}
	}
	failed := []error{r.noticeUnreadable(unreadable, c)}
	for name := range names {
		if unreadable[name] != nil {
			continue
		}
		if err := r.affinity(ctx, name, wanted); err != nil {
			failed = append(failed, fmt.Errorf("persistent volume %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

// affinity does step after step of one volume until there is none to do now.
func (r *affinityReconciler) affinity(ctx context.Context, name string, wanted map[string][]corev1.NodeSelectorTerm) error {
	for range maxAffinitySteps {
		f, err := r.readVolume(ctx, name, wanted)
		if err != nil {
			return err
		}
		step := plan.NextAffinity(*f)
		err = r.doAffinity(ctx, f, step)
		r.Metrics.step("affinity", affinityNames[step.Kind], err)
		if err != nil || step.Kind == plan.AffinityNone || step.Kind == plan.AffinityWait {
			return err
		}
	}
	return nil
}

// readVolume reads all that a step depends on, from the API server itself.
func (r *affinityReconciler) readVolume(ctx context.Context, name string, wanted map[string][]corev1.NodeSelectorTerm) (f *plan.VolumeFacts, err error) {
	f = &plan.VolumeFacts{Elsewhere: r.elsewhere, Immutable: r.immutable}
	if f.PV, err = found(r.Kube.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})); err != nil {
		return nil, err
	}
	if f.PV != nil && !isOurs(f.PV) {
		return &plan.VolumeFacts{}, nil
	}
	if f.Saved, f.SavedVersion, err = r.savedVolume(ctx, name); err != nil {
		return nil, err
	}
	known := f.PV
	if known == nil {
		known = f.Saved
	}
	if known == nil {
		return f, nil
	}
	f.Want = wanted[known.Spec.CSI.VolumeHandle]
	if ref := known.Spec.ClaimRef; ref != nil {
		if f.Claim, err = found(r.Kube.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})); err != nil {
			return nil, err
		}
	}
	f.InUse, err = r.inUse(ctx, known)
	return f, err
}

// found is an object that was read; nil where there is none.
func found[T any](object *T, err error) (*T, error) {
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return object, err
}

// inUse says what uses the volume: kubelet and the attacher both read the object while a pod has it.
func (r *affinityReconciler) inUse(ctx context.Context, pv *corev1.PersistentVolume) (string, error) {
	attachments, err := r.Kube.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list volume attachments: %w", err)
	}
	for _, a := range attachments.Items {
		if name := a.Spec.Source.PersistentVolumeName; name != nil && *name == pv.Name {
			return fmt.Sprintf("it is attached to node %s", a.Spec.NodeName), nil
		}
	}
	if pv.Spec.ClaimRef == nil {
		return "", nil
	}
	pods, err := r.Kube.CoreV1().Pods(pv.Spec.ClaimRef.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		for _, claim := range claimsOf(&pods.Items[i]) {
			if claim == pv.Spec.ClaimRef.Name && isRunning(&pods.Items[i]) {
				return fmt.Sprintf("pod %s uses it", pods.Items[i].Name), nil
			}
		}
	}
	return "", nil
}

var affinityNames = map[plan.AffinityKind]string{
	plan.AffinityNone: "none", plan.AffinityWait: "wait", plan.AffinityPatch: "patch", plan.AffinityRetain: "retain", plan.AffinitySave: "save",
	plan.AffinityDelete: "delete", plan.AffinityStrip: "strip", plan.AffinityCreate: "create", plan.AffinityRestore: "restore", plan.AffinityForget: "forget",
}

func (r *affinityReconciler) doAffinity(ctx context.Context, f *plan.VolumeFacts, step plan.Affinity) error {
	switch step.Kind {
	case plan.AffinityPatch:
		return r.patchAffinity(ctx, f)
	case plan.AffinityRetain:
		policy := string(f.PV.Spec.PersistentVolumeReclaimPolicy)
		return r.patchVolume(ctx, f.PV, map[string]any{plan.AnnotationReclaimPolicy: policy}, map[string]any{"persistentVolumeReclaimPolicy": "Retain"}, nil)
	case plan.AffinitySave:
		return r.saveVolume(ctx, f.PV, f.SavedVersion)
	case plan.AffinityDelete:
		if err := r.checkRenewable(ctx, f); err != nil {
			return err
		}
		uid, version := f.PV.UID, f.PV.ResourceVersion
		return r.Kube.CoreV1().PersistentVolumes().Delete(ctx, f.PV.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version}})
	case plan.AffinityStrip:
		return r.patchVolume(ctx, f.PV, nil, nil, plan.Stripped(f.PV.Finalizers))
	case plan.AffinityCreate:
		_, err := r.Kube.CoreV1().PersistentVolumes().Create(ctx, plan.Renewed(f.Saved, f.Want), metav1.CreateOptions{})
		return err
	case plan.AffinityRestore:
		policy := f.PV.Annotations[plan.AnnotationReclaimPolicy]
		return r.patchVolume(ctx, f.PV, map[string]any{plan.AnnotationReclaimPolicy: nil}, map[string]any{"persistentVolumeReclaimPolicy": policy}, nil)
	case plan.AffinityForget:
		return gone(r.Kube.CoreV1().ConfigMaps(r.Namespace).Delete(ctx, plan.SavedName(f.PV.Name), metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{ResourceVersion: &f.SavedVersion},
		}))
	case plan.AffinityWait:
		if f.Claim != nil && f.PV != nil && f.PV.Annotations[plan.AnnotationReclaimPolicy] == "" {
			r.Notifier.Claim(f.Claim, plan.Notice{Reason: plan.ReasonAffinity, Note: "The volume's replicas moved, and where it may be used is brought up to date once nothing uses it: " + step.Why})
		}
	case plan.AffinityNone:
	}
	return nil
}

// checkRenewable asks, before the object is deleted, whether the API server, and who admits objects to it, would take it anew. Both
// decide before it is seen that there is one of the name.
func (r *affinityReconciler) checkRenewable(ctx context.Context, f *plan.VolumeFacts) error {
	_, err := r.Kube.CoreV1().PersistentVolumes().Create(ctx, plan.Renewed(f.PV, f.Want), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	return fmt.Errorf("it stays as it is, because the API server would not take it anew: %w", err)
}

// patchAffinity tries to change it in place. Without the gate MutablePVNodeAffinity the API server takes no change.
func (r *affinityReconciler) patchAffinity(ctx context.Context, f *plan.VolumeFacts) error {
	affinity := &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: f.Want}}
	err := r.patchVolume(ctx, f.PV, nil, map[string]any{"nodeAffinity": affinity}, nil)
	if apierrors.IsInvalid(err) {
		r.immutable = true
		r.Logger.Info("this API server does not let a volume's node affinity be changed: such volumes are made anew under Retain")
		return nil
	}
	return err
}

// patchVolume changes the object only as it was read; finalizers where they are not nil.
func (r *affinityReconciler) patchVolume(ctx context.Context, pv *corev1.PersistentVolume, annotations, spec map[string]any, finalizers []string) error {
	meta := map[string]any{"resourceVersion": pv.ResourceVersion, "uid": pv.UID}
	patch := map[string]any{"metadata": meta}
	if annotations != nil {
		meta["annotations"] = annotations
	}
	if spec != nil {
		patch["spec"] = spec
	} else if annotations == nil {
		meta["finalizers"] = finalizers
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = r.Kube.CoreV1().PersistentVolumes().Patch(ctx, pv.Name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}
