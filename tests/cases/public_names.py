"""All public names, by room. An edit of this list by hand is the decision that a name is public, or no longer is."""

NAMES = {
    "": """
        DecisionFocusedRegressor GroupLassoPerceptron MultilabelLPSparseMAP RaggedArray StructuredGroupLasso
        StructuredGroupLassoCV StructuredSparseMAPClassifier __version__ compile lp_sparsemap map_inference
        marginal_inference n_best perceptron_path show_versions sparsemap stability_selection
        structured_group_lasso_path
    """,
    "conformal": """
        ConformalStructures
    """,
    "datasets": """
        ConlluSentence dump_conllu load_conll load_conllu load_hierarchical_arff load_ingredients load_listops
        load_multilabel_arff load_partition load_word_vectors make_listops save_partition
    """,
    "distributed": """
        ParameterMixing
    """,
    "estimators": """
        DecisionFocusedRegressor GroupLassoPerceptron GroupPath Monitor MultilabelLPSparseMAP StabilitySelection
        StructuredGroupLasso StructuredGroupLassoCV StructuredSparseMAPClassifier TrainingState average_states
        cross_val_marginals perceptron_path stability_selection structured_group_lasso_path
    """,
    "factors": """
        AndOut AtLeast AtMost AtMostOne Budget Condition Exactly Exclusive FactorGraph Hierarchy Iff Implies Imply
        Knapsack Label Or OrOut Pair PairTable StructureFactor WeightedSum Xor XorOut grid_graph second_order_tree
    """,
    "features": """
        ArcTemplate ArcVectorizer DERIVED_FIELDS GrandparentTemplate GrandparentVectorizer InformationGainSelector
        OnRows OutOfFoldScores RowUnion SiblingTemplate SiblingVectorizer Template TemplateVectorizer
        TokenDictVectorizer WordClusters WordVectors arc_templates chunking_templates dependency_templates
        grandparent_templates ner_templates ngrams sentences_from_frame sibling_templates word_case word_digits
        word_punctuation word_shape
    """,
    "inference": """
        LPSparseMAPBatch LPSparseMAPResult MAPBatch MAPResult MarginalBatch MarginalResult SparseMAPBatch
        SparseMAPResult entropy lp_sparsemap map_inference marginal_inference n_best sparsemap
    """,
    "inspection": """
        Explanation explain feature_table label_table transition_table
    """,
    "jax": """
        lp_sparsemap map_inference sparsemap
    """,
    "losses": """
        ExpectedCost FenchelYoungLoss LOSSES PerturbedFenchelYoungLoss SPOPlusLoss
    """,
    "metrics": """
        convert_spans example_f1_score example_f1_scorer flat_accuracy_score flat_accuracy_scorer
        flat_classification_report flat_f1_score flat_f1_scorer hierarchical_f1_score labeled_attachment_score
        labeled_attachment_scorer normalized_regret parts_f1_score parts_f1_scorer precision_at_1_scorer
        precision_at_3_scorer precision_at_5_scorer precision_at_k propensity_scored_precision_at_k
        sequence_accuracy_score sequence_accuracy_scorer span_f1_score span_f1_scorer span_precision_recall_f1
        span_report unlabeled_attachment_score unlabeled_attachment_scorer
    """,
    "penalties": """
        ElasticNet GroupLasso GroupOrder GroupTree Groups L1 Penalty SparseGroupLasso as_group_weights as_groups
        groups_by_name groups_from
    """,
    "pipeline": """
        StructuredPipeline make_structured_pipeline
    """,
    "plotting": """
        ChainDisplay CoefficientPathDisplay ConformalCoverageDisplay ConvergenceDisplay ExplanationDisplay
        FactorGraphDisplay FeatureTableDisplay GroupOrderDisplay GroupPathDisplay HierarchyDisplay
        LabelCalibrationDisplay LabelConfusionDisplay LabelGraphDisplay LossCurveDisplay MatchingDisplay
        MemoryCurveDisplay PartsDisplay RankingDisplay SegmentationDisplay SpansDisplay TransitionsDisplay
        TreeDisplay
    """,
    "score_models": """
        Network Trees
    """,
    "spans": """
        Span Token dump_jsonl labels_from_spans labels_from_tags load_jsonl spans_from_labels tokenize
    """,
    "structures": """
        Alignment CustomStructure DependencyTree HeadAutomaton Hyperpath LinearChain LinearProgram Matching Path
        Ranking Segmentation SequenceBudget Simplex Structure Subset
    """,
    "testing": """
        check_structure
    """,
    "torch": """
        ExpectedCost FenchelYoungLoss LPSparseMAP PerturbedFenchelYoungLoss SPOPlusLoss SelectedStructures SparseMAP
        lp_sparsemap map_inference sparsemap
    """,
}
