package deploytest

// What the files in deploy/kubernetes may hold: the part of the Kubernetes API that
// they use. A key that is not here is a slip, or belongs here.

type kubeMeta struct {
	Name        string            `yaml:"name"`
	Namespace   string            `yaml:"namespace"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// Head is what every object begins with; exported, as the decoder sets embedded fields
// of exported types only.
type Head struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   kubeMeta `yaml:"metadata"`
}

type labelSelector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type kubeKustomization struct {
	APIVersion         string   `yaml:"apiVersion"`
	Kind               string   `yaml:"kind"`
	Namespace          string   `yaml:"namespace"`
	Components         []string `yaml:"components"`
	Resources          []string `yaml:"resources"`
	ConfigMapGenerator []struct {
		Name  string   `yaml:"name"`
		Files []string `yaml:"files"`
	} `yaml:"configMapGenerator"`
	Images []struct {
		Name    string `yaml:"name"`
		NewName string `yaml:"newName"`
		NewTag  string `yaml:"newTag"`
	} `yaml:"images"`
}

type kubeNamespace struct {
	Head `yaml:",inline"`
}

type kubeServiceAccount struct {
	Head      `yaml:",inline"`
	Automount *bool `yaml:"automountServiceAccountToken"`
}

type kubeSecret struct {
	Head       `yaml:",inline"`
	Type       string            `yaml:"type"`
	StringData map[string]string `yaml:"stringData"`
}

type kubeService struct {
	Head `yaml:",inline"`
	Spec struct {
		ClusterIP string            `yaml:"clusterIP"`
		NotReady  bool              `yaml:"publishNotReadyAddresses"`
		Selector  map[string]string `yaml:"selector"`
		Ports     []struct {
			Name       string `yaml:"name"`
			Port       int    `yaml:"port"`
			TargetPort string `yaml:"targetPort"`
		} `yaml:"ports"`
	} `yaml:"spec"`
}

type kubeSecurity struct {
	RunAsNonRoot   bool   `yaml:"runAsNonRoot"`
	RunAsUser      int    `yaml:"runAsUser"`
	RunAsGroup     int    `yaml:"runAsGroup"`
	FSGroup        int    `yaml:"fsGroup"`
	FSGroupChange  string `yaml:"fsGroupChangePolicy"`
	SeccompProfile struct {
		Type string `yaml:"type"`
	} `yaml:"seccompProfile"`
	AllowEscalation *bool `yaml:"allowPrivilegeEscalation"`
	ReadOnlyRoot    bool  `yaml:"readOnlyRootFilesystem"`
	Capabilities    struct {
		Drop []string `yaml:"drop"`
	} `yaml:"capabilities"`
}

type kubeProbe struct {
	HTTPGet struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
	Period    int `yaml:"periodSeconds"`
	Timeout   int `yaml:"timeoutSeconds"`
	Threshold int `yaml:"failureThreshold"`
}

type kubeEnv struct {
	Name      string `yaml:"name"`
	Value     string `yaml:"value"`
	ValueFrom struct {
		FieldRef struct {
			FieldPath string `yaml:"fieldPath"`
		} `yaml:"fieldRef"`
	} `yaml:"valueFrom"`
}

type kubeContainer struct {
	Name    string    `yaml:"name"`
	Image   string    `yaml:"image"`
	Args    []string  `yaml:"args"`
	Env     []kubeEnv `yaml:"env"`
	EnvFrom []struct {
		SecretRef struct {
			Name string `yaml:"name"`
		} `yaml:"secretRef"`
	} `yaml:"envFrom"`
	Ports []struct {
		Name          string `yaml:"name"`
		ContainerPort int    `yaml:"containerPort"`
	} `yaml:"ports"`
	Resources struct {
		Requests map[string]string `yaml:"requests"`
		Limits   map[string]string `yaml:"limits"`
	} `yaml:"resources"`
	Startup  kubeProbe    `yaml:"startupProbe"`
	Live     kubeProbe    `yaml:"livenessProbe"`
	Ready    kubeProbe    `yaml:"readinessProbe"`
	Security kubeSecurity `yaml:"securityContext"`
	Mounts   []struct {
		Name      string `yaml:"name"`
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

type kubePod struct {
	Metadata kubeMeta `yaml:"metadata"`
	Spec     struct {
		ServiceAccount string       `yaml:"serviceAccountName"`
		Automount      *bool        `yaml:"automountServiceAccountToken"`
		ServiceLinks   *bool        `yaml:"enableServiceLinks"`
		RestartPolicy  string       `yaml:"restartPolicy"`
		Grace          int          `yaml:"terminationGracePeriodSeconds"`
		Security       kubeSecurity `yaml:"securityContext"`
		Spread         []struct {
			MaxSkew           int           `yaml:"maxSkew"`
			TopologyKey       string        `yaml:"topologyKey"`
			WhenUnsatisfiable string        `yaml:"whenUnsatisfiable"`
			LabelSelector     labelSelector `yaml:"labelSelector"`
		} `yaml:"topologySpreadConstraints"`
		Containers []kubeContainer `yaml:"containers"`
		Volumes    []struct {
			Name      string `yaml:"name"`
			ConfigMap struct {
				Name string `yaml:"name"`
			} `yaml:"configMap"`
		} `yaml:"volumes"`
	} `yaml:"spec"`
}

type kubeStatefulSet struct {
	Head `yaml:",inline"`
	Spec struct {
		Replicas       *int   `yaml:"replicas"`
		ServiceName    string `yaml:"serviceName"`
		PodManagement  string `yaml:"podManagementPolicy"`
		UpdateStrategy struct {
			Type string `yaml:"type"`
		} `yaml:"updateStrategy"`
		MinReadySeconds int           `yaml:"minReadySeconds"`
		Selector        labelSelector `yaml:"selector"`
		Template        kubePod       `yaml:"template"`
		Claims          []struct {
			Metadata kubeMeta `yaml:"metadata"`
			Spec     struct {
				AccessModes []string `yaml:"accessModes"`
				Resources   struct {
					Requests map[string]string `yaml:"requests"`
				} `yaml:"resources"`
			} `yaml:"spec"`
		} `yaml:"volumeClaimTemplates"`
		Retention struct {
			WhenDeleted string `yaml:"whenDeleted"`
			WhenScaled  string `yaml:"whenScaled"`
		} `yaml:"persistentVolumeClaimRetentionPolicy"`
	} `yaml:"spec"`
}

type kubeBudget struct {
	Head `yaml:",inline"`
	Spec struct {
		MaxUnavailable int           `yaml:"maxUnavailable"`
		Selector       labelSelector `yaml:"selector"`
	} `yaml:"spec"`
}

type kubeAutoscaler struct {
	Head `yaml:",inline"`
	Spec struct {
		Target struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string `yaml:"kind"`
			Name       string `yaml:"name"`
		} `yaml:"scaleTargetRef"`
		Min     int `yaml:"minReplicas"`
		Max     int `yaml:"maxReplicas"`
		Metrics []struct {
			Type     string `yaml:"type"`
			Resource struct {
				Name   string `yaml:"name"`
				Target struct {
					Type               string `yaml:"type"`
					AverageUtilization int    `yaml:"averageUtilization"`
				} `yaml:"target"`
			} `yaml:"resource"`
		} `yaml:"metrics"`
		Behavior struct {
			ScaleDown struct {
				Window int `yaml:"stabilizationWindowSeconds"`
			} `yaml:"scaleDown"`
		} `yaml:"behavior"`
	} `yaml:"spec"`
}

type kubePolicyPort struct {
	Protocol string `yaml:"protocol"`
	Port     any    `yaml:"port"`
}

type kubeNetworkPolicy struct {
	Head `yaml:",inline"`
	Spec struct {
		PodSelector labelSelector `yaml:"podSelector"`
		Types       []string      `yaml:"policyTypes"`
		Ingress     []struct {
			From []struct {
				Namespace labelSelector `yaml:"namespaceSelector"`
				Pod       labelSelector `yaml:"podSelector"`
			} `yaml:"from"`
			Ports []kubePolicyPort `yaml:"ports"`
		} `yaml:"ingress"`
		Egress []struct {
			Ports []kubePolicyPort `yaml:"ports"`
		} `yaml:"egress"`
	} `yaml:"spec"`
}

type kubeJob struct {
	Head `yaml:",inline"`
	Spec struct {
		BackoffLimit int     `yaml:"backoffLimit"`
		Deadline     int     `yaml:"activeDeadlineSeconds"`
		TTL          int     `yaml:"ttlSecondsAfterFinished"`
		Template     kubePod `yaml:"template"`
	} `yaml:"spec"`
}

type kubePodMonitor struct {
	Head `yaml:",inline"`
	Spec struct {
		JobLabel  string        `yaml:"jobLabel"`
		Selector  labelSelector `yaml:"selector"`
		Endpoints []struct {
			Port     string `yaml:"port"`
			Path     string `yaml:"path"`
			Interval string `yaml:"interval"`
		} `yaml:"podMetricsEndpoints"`
	} `yaml:"spec"`
}
