"""Names of columns: how other tools and published data call the fields of a row.

One spelling of a name is enough, since case and separators do not count.
"""

from __future__ import annotations

from collections.abc import Iterable

RETRIEVED = (
    "context", "contexts", "passages", "retrieved_contexts", "retrieved_context",
    "retrieval_context", "retrievalContext", "retrieved_documents", "retrieved_passages",
    "documents", "chunks", "ctx", "ctxs", "passage", "paragraph", "paragraphs", "chunk", "docs",
    "retrieved_docs", "retrieved_chunks", "retrieved_text", "retrieved", "search_results",
    "evidence", "evidences", "knowledge", "knowledge_base", "background", "fact", "facts",
    "grounding", "premise", "snippet", "snippets",
)  # fmt: skip
"""Names of retrieved passages, in rows and in messages."""
ALIASES = {
    "output": """
        response hypothesis summary prediction actual_output actual_response system_output
        system_response system_summary system_answer model_output model_response model_answer
        model_summary model_prediction model_generation llm_output llm_response llm_answer
        llm_summary ai_response ai_output ai_answer bot_response chatbot_response agent_response
        agent_output assistant_response assistant_output generated_output generated_response
        generated_answer generated_summary generated_translation predicted_output
        predicted_response predicted_answer predicted_summary predicted_text final_output
        final_response final_answer candidate_output candidate_response candidate_answer
        candidate_summary candidate_translation machine_translation output_text response_text
    """,
    "source": """
        document input article question prompt query src source_text source_document
        source_article dialogue user_input user_query user_question user_prompt user_message
        input_text
    """,
    "context": " ".join(RETRIEVED),
    "messages": """
        turns conversation conversations chat chat_history history message_history
        conversation_history dialog_history dialogue_history transcript trajectory traj chat_log
        dialog
    """,
    "images": """
        image image_url image_urls image_path image_paths image_file image_files image_uri
        image_uris img img_path imgs picture pictures photo photos screenshot screenshots
    """,
    "tools": "available_tools tool_definitions tool_schemas function_definitions",
    "tools_called": "tool_calls called_tools function_calls",
    "rubric": "rubrics rubric_items",
    "references": """
        reference expected expected_output expected_outcome expected_answer expected_response
        target ground_truth ground_truths gold golden ref refs gold_answer gold_answers
        gold_output gold_summary gold_response golden_answer golden_answers reference_answer
        reference_answers reference_output reference_outputs reference_summary reference_summaries
        reference_text reference_texts reference_response reference_responses
        reference_translation target_text target_output human_reference human_references
        human_summary human_summaries correct_answer correct_answers best_answer ideal_answer
        ideal_answers ideal_response ideal
    """,
}
"""Names by field."""
LESS_CLEAR = {
    "output": """
        hyp hypo decoded decoded_text decoded_summary generated generated_text generation
        completion reply translation candidate pred predicted mt mt_text mt_output claim
        machine_summary
    """,
    "source": """
        instruction instructions scenario post mr meaning_representation original original_text
        full_text problem doc body src_text
    """,
}
"""Names that are used only without a clearer name for the field."""
GENERIC = ("answer", "text")
"""Names of the output, too, if no other column can be it; the first before the second. If another
column has running text, they are refused rather than reported: other columns that are not shown
leave the judged text as it is, but here a wrong guess would judge the wrong text of every row."""
BY_PLACE = {
    "system": "version model model_name model_id system_name system_id generator",
    "group": "group_id source_id doc_id document_id",
}
"""Names by field; of several columns the one that is named first here is used, and the others are
kept in `meta`.
`group` and `system` of `textassay/checking/words.toml` have more, which `check` reads only if the
values fit."""
RATERS = (
    "rater", "rater_id", "rater_name", "annotator", "annotator_id", "annotator_name", "worker",
    "worker_id", "reviewer", "reviewer_id", "assessor", "expert", "coder", "labeler",
    "labeler_id", "participant", "participant_id", "bewerter", "person", "user", "user_id",
)  # fmt: skip
"""Names of the column of raters in tables with a row per rating, the surest first."""
ITEMS = ("id", "item", "item_id", "text_id", "example_id", "sample_id", "uid", "qid")
"""Names of the column of rated texts in such tables."""


def plain_name(name: str) -> str:
    """Return a name without case and separators: `Doc ID`, `docId` and `doc_id` are one name."""
    return "".join(filter(str.isalnum, name.casefold()))


def names_rater(column: str) -> bool:
    """Return whether a column's name means raters in any table, such as `Rater ID`.

    Others of `RATERS` may mean something else in a table with a row per text: a `user` who asked.
    """
    sure = RATERS[: RATERS.index("reviewer")]
    return plain_name(column) in map(plain_name, sure)


def columns_named(names: Iterable[str], columns: Iterable[str]) -> list[str]:
    """Return the columns that have one of the names, in the order of the names."""
    by_name = {plain_name(column): column for column in columns}
    return [by_name[name] for name in dict.fromkeys(map(plain_name, names)) if name in by_name]
