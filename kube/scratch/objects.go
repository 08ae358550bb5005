package scratch

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/holdfast-storage/holdfast/admin/certify"
)

// Blocks is the verb of the program that writes and reads, beside its flags.
const Blocks = "certify-blocks"

// folder is where a pod has its volume.
const folder = "/data"

// uid is the program's user in the image, and its group.
const uid = 9800

func (p *Pods) claim(run certify.Run, n int) *corev1.PersistentVolumeClaim {
	size := *resource.NewQuantity(p.Plan.SizeBytes, resource.BinarySI)
	return &corev1.PersistentVolumeClaim{ObjectMeta: p.meta(run, claimName(run, n)), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &p.Plan.Class,
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
	}}
}

// writer runs on a host.
func (p *Pods) writer(run certify.Run, n int, host string) *corev1.Pod {
	return p.pod(run, n, writerName(run, n), on(host, corev1.NodeSelectorOpIn), "write")
}

// reader runs on the host, or on another one that the volume can be used on.
func (p *Pods) reader(run certify.Run, n int, host string, elsewhere bool, acknowledged uint64) *corev1.Pod {
	operator := corev1.NodeSelectorOpIn
	if elsewhere {
		operator = corev1.NodeSelectorOpNotIn
	}
	return p.pod(run, n, readerName(run, n), on(host, operator), "read", fmt.Sprint("--acknowledged=", acknowledged))
}

// pod runs the program once, with the claim, as the Pod Security level "restricted" has it.
func (p *Pods) pod(run certify.Run, n int, name string, where *corev1.Affinity, args ...string) *corev1.Pod {
	no, yes, user := false, true, int64(uid)
	args = append([]string{Blocks}, append(args, "--file="+folder+"/blocks", "--run="+string(run), fmt.Sprint("--places=", p.Plan.Blocks()))...)
	return &corev1.Pod{ObjectMeta: p.meta(run, name), Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Affinity: where, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		AutomountServiceAccountToken: &no, EnableServiceLinks: &no, ImagePullSecrets: p.Program.Pull, TerminationGracePeriodSeconds: new(int64(10)),
		SecurityContext: &corev1.PodSecurityContext{RunAsUser: &user, RunAsGroup: &user, FSGroup: &user, RunAsNonRoot: &yes,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: container, Image: p.Program.Image, ImagePullPolicy: p.Program.Policy, Command: []string{"/usr/bin/holdfast"}, Args: args,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError, // so that the pod says why it failed
			Resources:                resources(),
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: folder}},
		}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(run, n)}}}},
	}}
}

// resources are small, and said, as quotas want.
func resources() corev1.ResourceRequirements {
	cpu, memory := resource.MustParse("20m"), resource.MustParse("64Mi")
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
	}
}

// on leaves the choice to the scheduler, which says why it cannot place a pod, and has a volume made on the pod's host.
func on(host string, operator corev1.NodeSelectorOperator) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: operator, Values: []string{host}}}}}}}}
}
