package loop

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-storage/holdfast/kube/plan"
)

// savedVolumes are those that are being made anew, by name. Of those that cannot be read it is said why, by name too.
func (r *affinityReconciler) savedVolumes(ctx context.Context) (saved map[string]*corev1.PersistentVolume, unreadable map[string]error, err error) {
	maps, err := r.Kube.CoreV1().ConfigMaps(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: plan.LabelSavedVolume})
	if err != nil {
		return nil, nil, fmt.Errorf("list saved persistent volumes: %w", err)
	}
	saved, unreadable = map[string]*corev1.PersistentVolume{}, map[string]error{}
	for i := range maps.Items {
		if pv, err := plan.ReadSaved(&maps.Items[i]); err != nil {
			unreadable[plan.NameOfSaved(maps.Items[i].Name)] = err
		} else {
			saved[pv.Name] = pv
		}
	}
	return saved, unreadable, nil
}

// noticeUnreadable says to their claims which volumes stay as they are, because what was saved of them cannot be read.
func (r *affinityReconciler) noticeUnreadable(unreadable map[string]error, c *cluster) error {
	var failed []error
	for name, why := range unreadable {
		failed = append(failed, fmt.Errorf("persistent volume %s stays as it is, for what was saved of it cannot be read: %w", name, why))
		for _, claim := range c.claims {
			if claim.Spec.VolumeName == name {
				r.Notifier.Claim(claim, plan.Notice{Reason: plan.ReasonAffinity, Note: fmt.Sprintf("What was saved of persistent volume %s cannot be read, and "+
					"nothing is done with it: %v; give the volume its persistent volume by hand, and delete the ConfigMap", name, why)})
			}
		}
	}
	return errors.Join(failed...)
}

// savedVolume is what was saved of a persistent volume, and the version of the ConfigMap that has it; nil where nothing was.
func (r *affinityReconciler) savedVolume(ctx context.Context, name string) (pv *corev1.PersistentVolume, version string, err error) {
	m, err := found(r.Kube.CoreV1().ConfigMaps(r.Namespace).Get(ctx, plan.SavedName(name), metav1.GetOptions{}))
	if m == nil || err != nil {
		return nil, "", err
	}
	pv, err = plan.ReadSaved(m)
	return pv, m.ResourceVersion, err
}

// saveVolume writes it, in place of what that version has; without one, there must be none.
func (r *affinityReconciler) saveVolume(ctx context.Context, pv *corev1.PersistentVolume, version string) error {
	text, err := plan.Encode(pv)
	if err != nil {
		return err
	}
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: plan.SavedName(pv.Name), Namespace: r.Namespace, ResourceVersion: version, Labels: map[string]string{plan.LabelSavedVolume: "true"}},
		Data:       map[string]string{plan.SavedKey: text},
	}
	if version == "" {
		_, err = r.Kube.CoreV1().ConfigMaps(r.Namespace).Create(ctx, m, metav1.CreateOptions{})
	} else {
		_, err = r.Kube.CoreV1().ConfigMaps(r.Namespace).Update(ctx, m, metav1.UpdateOptions{})
	}
	return err
}
